/* env_sim.h - a disk in memory, whose power can be cut after any effect (for tests).
 *
 * What is written is there at once for whoever reads, and on the disk only after a sync: a file's bytes and size by
 * sync_data or sync_file of that file, the names in a directory by sync_directory of that directory. The disk remembers
 * every effect in order, so a crash is a question asked afterwards: sgs_sim_crash() makes another disk, as the next
 * process could find it after a power cut behind the n-th effect. Of what was not synced each piece is there or not: a
 * block of a file as it was after any of the writes to it since the last sync, the size after any of the changes of it, each
 * change of a name (a rename is one change). Nothing is promised about their order.
 *
 * Effects are the successful calls that change or sync something. A store through a mapping is none; it is noticed
 * before the next effect. sync_mapping alone promises nothing: the sync of the file does.
 * LIMITS  no links, owners or sockets; of permissions only that a file is read-only (send_file fails); a mapped file grows to twice the size of its first mapping, at least 64 KiB.
 * THREADS  as every env. Everything below but the env itself: one thread, while no call is inside. */
#ifndef SGS_IO_ENV_SIM_H
#define SGS_IO_ENV_SIM_H

#include "io/env.h"

typedef struct sgs_sim_disk sgs_sim_disk;

/* Every call that can fail, by its name in sgs_env. */
/* clang-format off */
#define SGS_SIM_CALLS(X) \
    X(open_directory) X(make_directory) X(remove_directory) X(list_directory) X(sync_directory) X(file_info_at) \
    X(set_modified_at) X(make_read_only_at) X(rename) X(unlink) X(open_file) X(close) X(file_info) X(read_at) X(write_at) X(send_file) X(truncate) \
    X(allocate_space) X(sync_data) X(sync_file) X(map) X(sync_mapping) X(lock) X(unlock) X(is_network_file_system)
/* clang-format on */

#define SGS_SIM_ENUM(name) SGS_SIM_##name,
typedef enum sgs_sim_call { SGS_SIM_CALLS(SGS_SIM_ENUM) SGS_SIM_ANY_CALL } sgs_sim_call;
#undef SGS_SIM_ENUM

typedef enum sgs_sim_fate {
    SGS_SIM_ALL_LOST, /* only what was synced is there */
    SGS_SIM_ALL_KEPT, /* all of it is there, and on the disk from now on */
    SGS_SIM_BY_SEED,  /* each piece by itself */
    SGS_SIM_KILLED    /* no power cut: the process ended, and what was not synced still is not */
} sgs_sim_fate;

typedef struct sgs_sim_crash {
    int64_t effects; /* the power is cut after so many; -1 = all so far */
    sgs_sim_fate fate;
    uint64_t seed;
    const int64_t *ignored; /* numbers of effects, syncs, that promised and did nothing [DUR-110] */
    size_t ignored_count;
} sgs_sim_crash;

/* What an effect was, for messages. */
typedef struct sgs_sim_event {
    sgs_sim_call call;
    const char *name;    /* of the file or, for what changes names, the name; lives as long as the disk */
    const char *to;      /* of a rename; else "" */
    int64_t position;    /* of a write; the new size for truncate and allocate_space */
    int64_t bytes_count; /* of a write */
    sgs_barrier barrier; /* of a sync; else SGS_BARRIER_COUNT */
} sgs_sim_event;

/** An empty disk: the root directory "/", which is the working directory too.
 *  @param base    whose memory and process id it uses
 *  @param device  sgs_file_info.device of all that is on it
 *  @return SGS_OK or SGS_RESOURCE */
sgs_status sgs_sim_open(const sgs_env *base, uint64_t device, sgs_sim_disk **disk, sgs_error *err);
void sgs_sim_close(sgs_sim_disk *disk);
/** The disk's environment; lives as long as the disk. */
const sgs_env *sgs_sim_env(const sgs_sim_disk *disk);

/** Effects so far; those that the disk began with do not count. */
int64_t sgs_sim_effects(const sgs_sim_disk *disk);
/** Calls of one kind, or of any, so far, failed ones included. */
int64_t sgs_sim_calls(const sgs_sim_disk *disk, sgs_sim_call call);
/** Calls so far that failed because that had been asked for: as planned, for want of room, without power. */
int64_t sgs_sim_failed_calls(const sgs_sim_disk *disk);
/** Descriptors that were opened and not closed. */
int64_t sgs_sim_open_descriptors(const sgs_sim_disk *disk);
/** @param number  1 to sgs_sim_effects() */
sgs_sim_event sgs_sim_event_of(const sgs_sim_disk *disk, int64_t number);
/** The call's name in sgs_env. */
const char *sgs_sim_call_name(sgs_sim_call call);

/** Let every effect beyond the n-th, and from then on every call, fail as if the disk were pulled out; -1 = never. */
void sgs_sim_cut_power_after(sgs_sim_disk *disk, int64_t effects);
bool sgs_sim_is_off(const sgs_sim_disk *disk);
/** A number for what can be found on the disk, all names and bytes of files: the same for two disks that hold the same. What
 *  is synced and what is not makes no difference. */
uint64_t sgs_sim_digest(sgs_sim_disk *disk);
/** Fail the n-th call of a kind, or of any, from now on (1 = the next), with what errno `os_error` means there; 0 = none.
 *  A failed call changes nothing, but for a sync: what it should have brought to the disk stays what readers see, and is
 *  never on the disk unless it is written again, whatever later syncs say. */
void sgs_sim_fail(sgs_sim_disk *disk, sgs_sim_call call, int64_t nth, int os_error, bool for_ever);

/* Told of a call before it is made, by the thread that makes it; the disk is free, so it may plan that this very call fails. */
typedef void (*sgs_sim_watcher)(void *context, sgs_sim_call call, const char *name);
/** Tell `watch` of every call that can fail; NULL = nobody. */
void sgs_sim_watch(sgs_sim_disk *disk, sgs_sim_watcher watch, void *context);

/** Let writes make files so many bytes longer in all, then fail for want of space, with what fits written; -1 = no limit.
 *  What is cut off or removed gives nothing back. */
void sgs_sim_set_room(sgs_sim_disk *disk, int64_t bytes);

/** Set the wall clock, which stands still; the monotonic clock goes on by as much, if that is forward. */
void sgs_sim_set_wall_clock(sgs_sim_disk *disk, int64_t wall_clock_ms);

/** The disk that the next process finds. `disk` stays as it is, but for stores through mappings that are noticed. */
sgs_status sgs_sim_crash_image(sgs_sim_disk *disk, const sgs_sim_crash *crash, uint64_t device, sgs_sim_disk **image,
                               sgs_error *err);

#endif
