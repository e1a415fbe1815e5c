# file_lock.pxi - a lock on a file of a directory (csrc/io/env.h)
#
# A lock belongs to the open file description, which a forked child shares: a child that outlives its killed parent
# would keep the parent's locks. So all lock descriptors of the process are in one list, and a forked child closes its
# copies before any other code of its runs [DUR-68]. It never unlocks: that would unlock its living parent.
#
# The list is guarded by a mutex, which a fork takes too. Every such descriptor is opened and listed, unlisted and
# closed under the mutex: no child sees half a change, nor a descriptor that is open and not in the list. A child that
# is made without the handlers of pthread_atfork (vfork, posix_spawn, a bare clone) keeps the descriptors until it
# starts another program: they are close-on-exec.

from libc.errno cimport EINTR, errno
from posix.fcntl cimport O_CLOEXEC, open as posix_open


cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass

    int pthread_mutex_init(pthread_mutex_t *mutex, void *attributes)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)


cdef struct LockDescriptor:
    const sgs_env *env
    int fd  # -1 = none, and not in the list
    LockDescriptor *next
    LockDescriptor *previous


cdef LockDescriptor *lock_descriptors = NULL
cdef pthread_mutex_t lock_descriptors_mutex
pthread_mutex_init(&lock_descriptors_mutex, NULL)


cdef void list_lock(LockDescriptor *lock) noexcept nogil:
    """Under the mutex."""
    global lock_descriptors
    lock.previous = NULL
    lock.next = lock_descriptors
    if lock_descriptors != NULL:
        lock_descriptors.previous = lock
    lock_descriptors = lock


cdef void unlist_lock(LockDescriptor *lock) noexcept nogil:
    """Under the mutex."""
    global lock_descriptors
    if lock.previous != NULL:
        lock.previous.next = lock.next
    else:
        lock_descriptors = lock.next
    if lock.next != NULL:
        lock.next.previous = lock.previous


cdef void before_fork() noexcept nogil:
    pthread_mutex_lock(&lock_descriptors_mutex)
    sgs_descriptor_pool_before_fork(&descriptor_pool)


cdef void after_fork_in_parent() noexcept nogil:
    sgs_descriptor_pool_in_parent(&descriptor_pool)
    pthread_mutex_unlock(&lock_descriptors_mutex)


cdef void after_fork_in_child() noexcept nogil:
    """Close the copies; the numbers are the child's own from here on, and no `FileLock` of the parent knows them."""
    global lock_descriptors
    cdef sgs_error err
    cdef LockDescriptor *lock = lock_descriptors
    lock_descriptors = NULL
    sgs_descriptor_pool_in_child(&descriptor_pool)
    while lock != NULL:
        if is_pooled(lock.env):  # the descriptors of a simulated disk are memory
            lock.env.close(lock.env, lock.fd, "", &err)
        lock.fd = -1
        lock = lock.next
    pthread_mutex_init(&lock_descriptors_mutex, NULL)


pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child)


@cython.final
@cython.no_gc_clear
cdef class FileLock:
    """A lock on a whole file, held by this process until it is released [DUR-65, DUR-66]."""

    cdef Environment environment
    cdef LockDescriptor lock
    cdef int64_t process

    def __cinit__(self, Environment environment not None):
        self.environment = environment
        self.lock.env = environment.env
        self.lock.fd = -1
        self.process = current_process

    @staticmethod
    def open_flock(path, int flags):
        """Open *path*, which is made with mode 0600, for a ``flock`` lock; the caller takes it by `fileno`."""
        cdef FileLock lock = FileLock.__new__(FileLock, system_environment)
        cdef bytes encoded = os.fsencode(path)
        cdef const char *text = encoded
        cdef int failure = 0
        with nogil:
            pthread_mutex_lock(&lock_descriptors_mutex)
            while True:
                lock.lock.fd = posix_open(text, flags | O_CLOEXEC, 0o600)
                failure = errno if lock.lock.fd < 0 else 0
                if failure != EINTR:
                    break
            if failure == 0:
                list_lock(&lock.lock)
            pthread_mutex_unlock(&lock_descriptors_mutex)
        if failure != 0:
            raise OSError(failure, os.strerror(failure), os.fsdecode(path))
        return lock

    def fileno(self):
        """Return the descriptor, which stays the lock's; -1 when it is closed."""
        return self.lock.fd

    cdef sgs_status take(self, int directory_fd, const char *text, sgs_open_mode mode, sgs_lock_kind kind,
                         sgs_error *err) noexcept nogil:
        """Open the file and lock it, or neither."""
        cdef const sgs_env *env = self.lock.env
        cdef sgs_error second
        cdef int fd = -1
        cdef sgs_status status
        pthread_mutex_lock(&lock_descriptors_mutex)
        status = env.open_file(env, directory_fd, text, mode, &fd, err)
        if status == SGS_OK:
            status = env.lock(env, fd, text, kind, err)
            if status == SGS_OK:
                self.lock.fd = fd
                list_lock(&self.lock)
            else:
                env.close(env, fd, text, &second)
        pthread_mutex_unlock(&lock_descriptors_mutex)
        return status

    def __dealloc__(self):
        self.drop()

    cdef void drop(self) noexcept:
        """Unlock, then close; in a forked child there is nothing left to close."""
        cdef const sgs_env *env = self.lock.env
        cdef sgs_error err
        if env == NULL or self.lock.fd < 0:  # NULL where not even the arguments were right
            return
        with nogil:
            pthread_mutex_lock(&lock_descriptors_mutex)
            if self.lock.fd >= 0:
                unlist_lock(&self.lock)
                if environment.process_id(environment) == self.process:  # also where no handler ran
                    env.unlock(env, self.lock.fd, "", &err)
                env.close(env, self.lock.fd, "", &err)
                self.lock.fd = -1
            pthread_mutex_unlock(&lock_descriptors_mutex)

    def release(self):
        """Unlock, then close; twice is harmless."""
        if self.process != current_process:
            raise ForkedHandleError(f"the lock belongs to process {self.process}", found=f"process {current_process}")
        self.drop()

    @property
    def held(self):
        return self.lock.fd >= 0 and self.process == current_process
