/* barrier.h - the names of all syncs: what each is for, and what a crash takes without it [DUR-110].
 *
 * A sync is done for a promise, not for a file: what comes after it may count on what came before it. So none can be
 * written without saying which of these it is; a test takes each name's syncs out of a run and looks for a crash that
 * shows it. An order that is no sync itself (a checkpoint before a rename) is the sync of what comes first: without
 * it a crash may find the second alone.
 *
 * A PROMISE's sync keeps what was promised. A WORK sync could go without breaking a promise: the next open would have
 * more to do, or find something worthless; that is said instead.
 *     SYNC(id, kind, rules, without)   one sync
 *     FILE(id, rules, kind, without the content, kind, without the name)   of a small file that is written whole: its
 *         content, <id>_CONTENT, before it gets its place, and its name there, <id>_NAME */
#ifndef SGS_IO_BARRIER_H
#define SGS_IO_BARRIER_H

/* clang-format off */
#define SGS_BARRIERS(SYNC, FILE) \
    /* records */ \
    SYNC(APPENDED_RECORDS, PROMISE, "DUR-3, DUR-13, DUR-15", "records that were acked") \
    SYNC(APPENDED_NAMES, PROMISE, "DUR-11, DUR-13", "new segments with records that were acked") \
    SYNC(ROLL_UNDONE, PROMISE, "DUR-11, DUR-30", "the segment of a failed roll lies beside a log that went on before it") \
    SYNC(REFUSED_RECORDS, PROMISE, "DUR-17, DUR-32", "a refused append comes back after the next one") \
    SYNC(CLOSED_RECORDS, WORK, "DUR-24", "the end of a preallocated file, which is zeros then") \
    SYNC(INDEXES, WORK, "DUR-8, DUR-24, DUR-52", "indexes, to be rebuilt, or replaced by reads of batches") \
    /* truncation and deletion */ \
    SYNC(TRUNCATION_KEEPS, PROMISE, "DUR-15, DUR-16", "records below a truncation that are not synced yet") \
    SYNC(TRUNCATION_NAMES, PROMISE, "DUR-16", "truncated segments come back") \
    SYNC(TRUNCATION_CUT, PROMISE, "DUR-16, DUR-17", "truncated records come back") \
    SYNC(EMPTYING_HIGHER, PROMISE, "DUR-18", "the first segment goes before others: no prefix") \
    SYNC(EMPTYING_FIRST, PROMISE, "DUR-18", "truncated records come back before the new segment") \
    SYNC(EMPTYING_CREATED, PROMISE, "DUR-11, DUR-18", "the new segment of an emptied log") \
    SYNC(DELETION_NAMES, WORK, "DUR-19", "deleted segments come back for a program that knows no log start: a broker") \
    /* recovery */ \
    SYNC(RECOVERY_CUT, PROMISE, "DUR-17, DUR-56", "a torn tail comes back after the next append") \
    SYNC(RECOVERY_RECORDS, PROMISE, "DUR-36, DUR-56", "records that recovery has shown") \
    SYNC(RECOVERY_NAMES, PROMISE, "DUR-36, DUR-56", "segments that recovery has shown") \
    SYNC(RECOVERY_SET_ASIDE, PROMISE, "DUR-54, DUR-56", "segments come back that recovery has quarantined") \
    SYNC(LEFTOVERS_INCOMPLETE, PROMISE, "DUR-20, DUR-55", "the sign that a set is incomplete goes before the set") \
    SYNC(LEFTOVERS_GONE, WORK, "DUR-20, DUR-55", "leftovers, which the next open sorts out again") \
    SYNC(LEFTOVERS_REPLACED, PROMISE, "DUR-20, DUR-55", "replaced segments come back beside the new ones") \
    SYNC(LEFTOVERS_DELETED, WORK, "DUR-19, DUR-56", "files of deleted records, which the next open removes again") \
    FILE(QUARANTINE, "DUR-59", PROMISE, "the bytes that recovery cut", \
         PROMISE, "the file of the bytes that recovery cut") \
    /* replacing segments: by a split, by the cleaner */ \
    SYNC(REPLACING_RECORDS, PROMISE, "DUR-20", "records that the new segments have") \
    SYNC(REPLACING_CLEANED, PROMISE, "DUR-20", "some of the new segments while others count") \
    SYNC(REPLACING_HIGHER, PROMISE, "DUR-20", "the last of the new segments, while the first replaces the old ones") \
    SYNC(REPLACING_COMMIT, PROMISE, "DUR-20", "old segments go before all of the new ones count") \
    SYNC(REPLACING_DONE, WORK, "DUR-20", "last renames, which the next open does again") \
    /* producers and transactions */ \
    SYNC(TRANSACTION_INDEX, WORK, "DUR-8, DUR-13", "an index: committed reads use the batches") \
    SYNC(TRANSACTION_INDEX_NAME, WORK, "DUR-8, DUR-13", "an index: committed reads use the batches") \
    FILE(REBUILT_TRANSACTION_INDEX, "DUR-52", WORK, "a rebuilt index", WORK, "a rebuilt index") \
    SYNC(ROLLED_SNAPSHOT, PROMISE, "DUR-22, DUR-29", "producers whose records were deleted") \
    SYNC(ROLLED_SNAPSHOT_NAME, WORK, "DUR-22, DUR-29", "a snapshot, until the directory is synced again") \
    FILE(SNAPSHOT, "DUR-22, DUR-24", PROMISE, "producers whose records were deleted", \
         WORK, "a snapshot, until the directory is synced again") \
    /* sealed segments */ \
    FILE(CHECKSUM_SIDECAR, "DUR-60", WORK, "checksums that fail their own checksum", \
         WORK, "checksums of a segment, to be made again") \
    /* checkpoints */ \
    FILE(RECOVERY_POINT, "DUR-16, DUR-18, DUR-21", PROMISE, "that there was a truncation: the directory above says more", \
         PROMISE, "that there was a truncation: records look lost") \
    FILE(LOG_START, "DUR-18, DUR-19, DUR-21", PROMISE, "deleted records come back", \
         PROMISE, "deleted records come back") \
    FILE(LEADER_EPOCHS, "DUR-12, DUR-21", PROMISE, "epochs that no batch has", PROMISE, "epochs that no batch has") \
    FILE(LOG_STATE, "DUR-64", PROMISE, "that a gap is damage", PROMISE, "that a gap is damage, or none") \
    FILE(SHARED_CHECKPOINT, "DUR-21, DUR-65", PROMISE, "lines of the log directory's other logs", \
         PROMISE, "the log's own line there") \
    FILE(NEW_NAME_CHECKPOINT, "DUR-5, DUR-19", PROMISE, "deleted records come back under a new name", \
         WORK, "the new name: the lines of the old one count, with a warning") \
    FILE(TOPICS, "DUR-11, DUR-21", PROMISE, "which topics are whole", PROMISE, "which topics are whole") \
    FILE(PARTITION_METADATA, "DUR-21, DUR-23", PROMISE, "the topic id", PROMISE, "the topic id") \
    FILE(CLEAN_MARKER, "DUR-24", WORK, "the marker: the next open recovers the log", \
         WORK, "the marker: the next open recovers the log") \
    SYNC(CLEAN_MARKER_GONE, PROMISE, "DUR-24", "the marker comes back: an unclean close looks clean") \
    SYNC(CLOSED_NAMES, WORK, "DUR-24, DUR-62", "Kafka's last producer snapshot") \
    /* directories */ \
    SYNC(NEW_DIRECTORY, PROMISE, "DUR-11", "a new log, with records that were acked") \
    SYNC(RENAMED_DIRECTORY, PROMISE, "DUR-5", "a log's new name") \
    SYNC(DOOMED_DIRECTORY, PROMISE, "DUR-5", "a deleted log comes back, without some of its files") \
    SYNC(REMOVED_DIRECTORY, PROMISE, "DUR-5", "a deleted log's directory comes back") \
    SYNC(MOVED_RECORDS, PROMISE, "DUR-127", "records of a log that was moved to another log directory") \
    SYNC(MOVED_NAMES, PROMISE, "DUR-127", "segments of a log that was moved to another log directory") \
    /* the metadata log */ \
    SYNC(METADATA_SNAPSHOT, PROMISE, "DUR-145", "a finished snapshot: the log before it may be gone") \
    SYNC(METADATA_SNAPSHOT_NAME, PROMISE, "DUR-145", "the same") \
    /* copies in remote storage, where that is a folder */ \
    SYNC(REMOTE_COPY, PROMISE, "DUR-140, DUR-142", "records of a copy that is whole: the local ones may be gone") \
    SYNC(REMOTE_COPY_NAMES, PROMISE, "DUR-140, DUR-142", "the copy, or a file of it that it looks whole without") \
    SYNC(REMOTE_DELETION, PROMISE, "DUR-142", "a deleted copy looks whole, with files missing or old ones") \
    /* a new log made of a damaged one */ \
    SYNC(SALVAGED_RECORDS, PROMISE, "DUR-2", "records that salvage has saved") \
    /* Spark's sink */ \
    SYNC(STAGED_RECORDS, PROMISE, "DUR-2", "records of a commit that is to be repeated") \
    SYNC(STAGED_NAMES, PROMISE, "DUR-2", "files of a commit that is to be repeated") \
    FILE(SINK_COMMIT, "DUR-2, DUR-21", PROMISE, "the commit: it is appended twice", PROMISE, "the same")

#define SGS_BARRIER_SYNC(id, kind, rules, without) SGS_BARRIER_##id,
#define SGS_BARRIER_FILE(id, rules, kind, without, name_kind, name_without) \
    SGS_BARRIER_##id##_CONTENT, SGS_BARRIER_##id##_NAME,
typedef enum sgs_barrier { SGS_BARRIERS(SGS_BARRIER_SYNC, SGS_BARRIER_FILE) SGS_BARRIER_COUNT } sgs_barrier;
#undef SGS_BARRIER_SYNC
#undef SGS_BARRIER_FILE
/* clang-format on */

#define SGS_BARRIER(id) SGS_BARRIER_##id

typedef enum sgs_barrier_kind { SGS_BARRIER_IS_PROMISE, SGS_BARRIER_IS_WORK } sgs_barrier_kind;

typedef struct sgs_barrier_text {
    const char *name; /* in capitals, without prefix */
    sgs_barrier_kind kind;
    const char *rules;
    const char *without; /* what is lost, or not lost, without it */
} sgs_barrier_text;

/** @param barrier  below SGS_BARRIER_COUNT */
sgs_barrier_text sgs_barrier_describe(sgs_barrier barrier);

#endif
