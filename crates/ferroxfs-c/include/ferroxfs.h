#ifndef FERROXFS_H
#define FERROXFS_H

/* Made by `cargo xtask c --header` from crates/ferroxfs-c. Do not edit. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version that this header belongs to. ferroxfs_version() has that of the library. */
#define FERROXFS_VERSION "0.1.0"

/* As the length of a name or path: a NUL ends it. */
#define FERROXFS_STRLEN ((size_t)-1)


/**
 * A flag of `ferroxfs_lookup`: a symbolic link at the end of the path is not followed.
 */
#define FERROXFS_NOFOLLOW 1

/**
 * A flag of `ferroxfs_attributes`: `mode` is set.
 */
#define FERROXFS_SET_MODE 1

/**
 * A flag of `ferroxfs_attributes`: `uid` is set.
 */
#define FERROXFS_SET_UID 2

/**
 * A flag of `ferroxfs_attributes`: `gid` is set.
 */
#define FERROXFS_SET_GID 4

/**
 * A flag of `ferroxfs_attributes`: `atime` is set.
 */
#define FERROXFS_SET_ATIME 8

/**
 * A flag of `ferroxfs_attributes`: `mtime` is set.
 */
#define FERROXFS_SET_MTIME 16

/**
 * A flag of `ferroxfs_rename`: an existing target is an error (EEXIST).
 */
#define FERROXFS_RENAME_NOREPLACE 1

/**
 * A flag of `ferroxfs_rename`: the two names are exchanged. Both must exist.
 */
#define FERROXFS_RENAME_EXCHANGE 2

/**
 * A flag of `ferroxfs_file_open`: the file is opened for reading.
 */
#define FERROXFS_READ 1

/**
 * A flag of `ferroxfs_file_open`: the file is opened for writing.
 */
#define FERROXFS_WRITE 2

/**
 * A flag of `ferroxfs_xattr_set`: the attribute must not exist (EEXIST).
 */
#define FERROXFS_XATTR_CREATE 1

/**
 * A flag of `ferroxfs_xattr_set`: the attribute must exist (ENODATA).
 */
#define FERROXFS_XATTR_REPLACE 2

/**
 * The kind of an error.
 */
typedef enum ferroxfs_kind {
    /**
     * The device, or the host, has failed.
     */
    FERROXFS_KIND_IO = 1,
    /**
     * A structure of the volume is damaged. `ferroxfs_error_structure`, `ferroxfs_error_address`
     * and `ferroxfs_error_check` say which one, where, and which check has failed.
     */
    FERROXFS_KIND_CORRUPT = 2,
    /**
     * The volume or the file has a format or feature that this library refuses.
     */
    FERROXFS_KIND_UNSUPPORTED = 3,
    /**
     * The operation is not possible on this object or for this user: ENOENT, EEXIST and others.
     */
    FERROXFS_KIND_POSIX = 4,
    /**
     * The volume was shut down, because its log could not be written.
     */
    FERROXFS_KIND_SHUTDOWN = 5,
    /**
     * The caller has passed an argument that this function does not take.
     */
    FERROXFS_KIND_ARGUMENT = 6,
    /**
     * The library has failed. The volume refuses every later call. Free its handles and close it:
     * closing writes nothing, and the next open recovers everything that was durable.
     */
    FERROXFS_KIND_INTERNAL = 7,
} ferroxfs_kind;

/**
 * A listing of a directory. One thread at a time may use it.
 *
 * The caller owns it, and frees it with `ferroxfs_dir_free`.
 */
typedef struct ferroxfs_dir ferroxfs_dir;

/**
 * The error of one call. The caller owns it, and frees it with `ferroxfs_error_free`.
 */
typedef struct ferroxfs_error ferroxfs_error;

/**
 * An open regular file. Any number of threads may read and write it at the same time.
 *
 * The caller owns it, and gives it back with `ferroxfs_file_close`.
 */
typedef struct ferroxfs_file ferroxfs_file;

/**
 * Options of a new volume. Without options it is the one that mkfs.xfs makes by default.
 *
 * The caller owns them, and frees them with `ferroxfs_mkfs_options_free`. One thread at a time may
 * use them.
 */
typedef struct ferroxfs_mkfs_options ferroxfs_mkfs_options;

/**
 * A handle on one inode, like a descriptor of O_PATH. Any number of threads may use it at the same
 * time.
 *
 * The caller owns it, and frees it with `ferroxfs_node_free`. It keeps the file, even after the
 * file has lost its last name.
 */
typedef struct ferroxfs_node ferroxfs_node;

/**
 * Options of opening a volume. Without options a volume is opened for reading.
 *
 * The caller owns them, and may use them for any number of volumes. One thread at a time may use
 * them.
 */
typedef struct ferroxfs_options ferroxfs_options;

/**
 * An open volume. Any number of threads may use it at the same time.
 *
 * The caller owns it, and gives it back with `ferroxfs_close`.
 */
typedef struct ferroxfs_volume ferroxfs_volume;

/**
 * A listing of the extended attributes of a node. One thread at a time may use it.
 *
 * The caller owns it, and frees it with `ferroxfs_xattrs_free`.
 */
typedef struct ferroxfs_xattrs ferroxfs_xattrs;

/**
 * A block device that the caller implements. The library copies this structure.
 *
 * Each callback returns 0, or a negative errno such as -EIO. Callbacks may run in several threads
 * at the same time, also in threads of the library, from the call that takes the device until
 * `destroy`. They must not call functions for the volume on this device, and must return: no
 * longjmp, no C++ exception.
 */
typedef struct ferroxfs_device {
    /**
     * sizeof(ferroxfs_device), so that a later version can add members at the end.
     */
    size_t size_bytes;
    /**
     * The first argument of each callback. The library only passes it on.
     */
    void *user_data;
    /**
     * The length of the device in bytes. It does not change.
     */
    uint64_t length_bytes;
    /**
     * The unit in which a write is atomic, in bytes: a power of two, at least 512.
     */
    uint32_t sector_size;
    /**
     * Reads `length` bytes at byte `offset` into `buffer`: all of them, or it fails. The library
     * never asks for bytes past the end of the device.
     */
    int32_t (*read)(void *user_data, uint8_t *buffer, size_t length, uint64_t offset);
    /**
     * Writes `length` bytes from `buffer` at byte `offset`: all of them, or it fails. If `durable`
     * is true, the bytes are on stable storage when it returns. NULL: the device is read-only.
     */
    int32_t (*write)(void *user_data,
                     const uint8_t *buffer,
                     size_t length,
                     uint64_t offset,
                     bool durable);
    /**
     * Makes every write durable that returned before this call. A device that can be written to
     * must have it.
     */
    int32_t (*flush)(void *user_data);
    /**
     * Discards bytes that are no longer needed. Later reads of them may return anything. NULL:
     * nothing is discarded.
     */
    int32_t (*discard)(void *user_data, uint64_t offset, uint64_t length);
    /**
     * Called once, after the last other callback: when the last handle of the volume is freed, or
     * when opening fails. NULL: nothing is called.
     */
    void (*destroy)(void *user_data);
} ferroxfs_device;

/**
 * Sizes of a volume.
 */
typedef struct ferroxfs_space {
    /**
     * Bytes in a block.
     */
    uint64_t block_size;
    /**
     * Blocks for data and metadata, without the internal log.
     */
    uint64_t total_blocks;
    /**
     * Free blocks.
     */
    uint64_t free_blocks;
    /**
     * Free blocks that files can use.
     */
    uint64_t available_blocks;
    /**
     * How many inodes the volume can have.
     */
    uint64_t files;
    /**
     * How many more files can be made.
     */
    uint64_t free_files;
    /**
     * Zeros. A later version may use them.
     */
    uint64_t reserved[10];
} ferroxfs_space;

/**
 * A time: seconds since 1970, and nanoseconds from 0 to 999999999.
 */
typedef struct ferroxfs_time {
    /**
     * Seconds since 1970-01-01 00:00 UTC.
     */
    int64_t seconds;
    /**
     * Nanoseconds.
     */
    uint32_t nanoseconds;
} ferroxfs_time;

/**
 * Properties of an inode, as stat(2) and statx(2) give them.
 */
typedef struct ferroxfs_stat {
    /**
     * Inode number.
     */
    uint64_t number;
    /**
     * Length in bytes.
     */
    uint64_t size;
    /**
     * Space in units of 512 bytes.
     */
    uint64_t blocks;
    /**
     * Generation: a file that gets the same number later has another one.
     */
    uint32_t generation;
    /**
     * Type and permission bits, as in st_mode.
     */
    uint32_t mode;
    /**
     * Number of names.
     */
    uint32_t nlink;
    /**
     * User ID of the owner.
     */
    uint32_t uid;
    /**
     * Group ID.
     */
    uint32_t gid;
    /**
     * Project ID.
     */
    uint32_t project_id;
    /**
     * Major number of a device file; 0 for any other file.
     */
    uint32_t device_major;
    /**
     * Minor number of a device file; 0 for any other file.
     */
    uint32_t device_minor;
    /**
     * Time of the last read.
     */
    struct ferroxfs_time atime;
    /**
     * Time of the last change of the contents.
     */
    struct ferroxfs_time mtime;
    /**
     * Time of the last change of the inode.
     */
    struct ferroxfs_time ctime;
    /**
     * Time at which the file was made.
     */
    struct ferroxfs_time btime;
    /**
     * FS_XFLAG_* bits.
     */
    uint32_t xflags;
    /**
     * Number of data extents.
     */
    uint64_t extents;
    /**
     * Zeros. A later version may use them.
     */
    uint64_t reserved[8];
} ferroxfs_stat;

/**
 * Attributes that `ferroxfs_setattr` changes. Only those count whose flag is in `set`.
 */
typedef struct ferroxfs_attributes {
    /**
     * FERROXFS_SET_* flags.
     */
    uint32_t set;
    /**
     * Permission bits, with set-ID and sticky bits.
     */
    uint32_t mode;
    /**
     * User ID of the owner.
     */
    uint32_t uid;
    /**
     * Group ID.
     */
    uint32_t gid;
    /**
     * Time of the last read.
     */
    struct ferroxfs_time atime;
    /**
     * Time of the last change of the contents.
     */
    struct ferroxfs_time mtime;
} ferroxfs_attributes;

/**
 * An entry of a directory.
 */
typedef struct ferroxfs_dirent {
    /**
     * The name. A NUL follows it. It belongs to the listing, until the next call for the listing.
     */
    const char *name;
    /**
     * Length of the name in bytes.
     */
    size_t name_length;
    /**
     * Inode number.
     */
    uint64_t number;
    /**
     * The type bits of st_mode, such as S_IFREG. 0: the directory does not say.
     */
    uint32_t type_bits;
} ferroxfs_dirent;

/**
 * An extended attribute, without its value.
 */
typedef struct ferroxfs_xattr {
    /**
     * The name with its namespace, such as "user.mime_type". A NUL follows it. It belongs to the
     * listing, until the next call for the listing.
     */
    const char *name;
    /**
     * Length of the name in bytes.
     */
    size_t name_length;
    /**
     * Length of the value in bytes. That of an access control list may differ.
     */
    size_t value_length;
} ferroxfs_xattr;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the errno of the error, a positive number of Linux such as ENOENT. Damage has EUCLEAN.
 * Returns 0 for NULL.
 */
int32_t ferroxfs_error_errno(const struct ferroxfs_error *error);

/**
 * Returns the kind of the error. NULL has the kind FERROXFS_KIND_ARGUMENT.
 */
enum ferroxfs_kind ferroxfs_error_kind(const struct ferroxfs_error *error);

/**
 * Returns the message: one line of UTF-8, in English. It belongs to the error. Returns "" for
 * NULL, never NULL.
 */
const char *ferroxfs_error_message(const struct ferroxfs_error *error);

/**
 * Returns the name of the damaged structure, such as "inode". It belongs to the error. Returns
 * NULL unless the kind is FERROXFS_KIND_CORRUPT.
 */
const char *ferroxfs_error_structure(const struct ferroxfs_error *error);

/**
 * Returns the address of the damaged structure as text. It belongs to the error. Returns NULL
 * unless the kind is FERROXFS_KIND_CORRUPT.
 */
const char *ferroxfs_error_address(const struct ferroxfs_error *error);

/**
 * Returns the failed check with its values, as text. It belongs to the error. Returns NULL unless
 * the kind is FERROXFS_KIND_CORRUPT.
 */
const char *ferroxfs_error_check(const struct ferroxfs_error *error);

/**
 * Frees an error. NULL is allowed.
 *
 * Contract: `error` is NULL, or came from this library and was not freed.
 */
void ferroxfs_error_free(struct ferroxfs_error *error);

/**
 * Returns new options: open for reading. Never returns NULL. Free them with
 * `ferroxfs_options_free`.
 */
struct ferroxfs_options *ferroxfs_options_new(void);

/**
 * Frees options. NULL is allowed. Volumes that were opened with them stay open.
 *
 * Contract: `options` is NULL, or came from `ferroxfs_options_new` and was not freed.
 */
void ferroxfs_options_free(struct ferroxfs_options *options);

/**
 * Sets whether the volume is opened for writing. The library then replays a dirty log, and starts
 * threads that stop when the volume is closed. For reading, nothing is ever written: a dirty log
 * is replayed in memory.
 */
void ferroxfs_options_set_write(struct ferroxfs_options *options, bool write);

/**
 * Sets whether a dirty log is ignored. The volume is then read as it stands. Only for reading.
 */
void ferroxfs_options_set_no_recovery(struct ferroxfs_options *options, bool no_recovery);

/**
 * Sets whether a device that another program uses is read nevertheless. The bytes may be stale.
 */
void ferroxfs_options_set_live(struct ferroxfs_options *options, bool live);

/**
 * Sets the byte of the file or device at which the volume starts.
 */
void ferroxfs_options_set_offset(struct ferroxfs_options *options, uint64_t bytes);

/**
 * Sets the number of the partition that holds the volume, from 1 on. It is only needed if several
 * partitions hold XFS.
 */
void ferroxfs_options_set_partition(struct ferroxfs_options *options, uint32_t number);

/**
 * Sets the size of the cache of metadata, in bytes.
 */
void ferroxfs_options_set_cache_bytes(struct ferroxfs_options *options, size_t bytes);

/**
 * Sets the path of the device of an external log. The library copies the path.
 *
 * Errors: EINVAL for NULL.
 *
 * Contract: `path` is NULL or ends with a NUL.
 */
int32_t ferroxfs_options_set_log_device(struct ferroxfs_options *options,
                                        const char *path,
                                        struct ferroxfs_error **error);

/**
 * Sets the path of the device of the realtime section. The library copies the path.
 *
 * Errors: EINVAL for NULL.
 *
 * Contract: `path` is NULL or ends with a NUL.
 */
int32_t ferroxfs_options_set_realtime_device(struct ferroxfs_options *options,
                                             const char *path,
                                             struct ferroxfs_error **error);

/**
 * Returns the version of the library, such as "0.1.0". The text is static.
 */
const char *ferroxfs_version(void);

/**
 * Opens the volume in an image file, on a block device or in a partition.
 *
 * `options` may be NULL, for reading. On success `*volume` is a new handle, which the caller gives
 * back with `ferroxfs_close`.
 *
 * Errors: EBUSY if another program uses the device; EINVAL if it holds no XFS volume; EUCLEAN if
 * the volume is damaged; EOPNOTSUPP if it has a feature that the library refuses; errors of the
 * host.
 *
 * Contract: `path` is NULL or ends with a NUL.
 */
int32_t ferroxfs_open(const char *path,
                      const struct ferroxfs_options *options,
                      struct ferroxfs_volume **volume,
                      struct ferroxfs_error **error);

/**
 * Opens the volume in the file or on the device that a descriptor of this process refers to.
 *
 * The library opens the file again, through /proc/self/fd, so that its locks are its own. The
 * caller keeps the descriptor, and may close it.
 *
 * Errors: those of `ferroxfs_open`; ENOENT without /proc; EACCES if this process may not open the
 * file again.
 */
int32_t ferroxfs_open_fd(int32_t fd,
                         const struct ferroxfs_options *options,
                         struct ferroxfs_volume **volume,
                         struct ferroxfs_error **error);

/**
 * Opens the volume on a device of the caller. The superblock is at its first byte.
 *
 * The library copies `device`. It calls `destroy` once, also if opening fails. Only an unknown
 * `size_bytes` prevents that.
 *
 * Errors: those of `ferroxfs_open`; EINVAL for a device without a needed callback, and for options
 * with an offset or a partition; EUCLEAN for a device without a volume.
 */
int32_t ferroxfs_open_device(const struct ferroxfs_device *device,
                             const struct ferroxfs_options *options,
                             struct ferroxfs_volume **volume,
                             struct ferroxfs_error **error);

/**
 * Closes a volume: writes everything in place, and marks the log clean. NULL is allowed.
 *
 * With EBUSY the volume stays open, because another handle of it exists: a node, a file, a
 * listing, or a volume that acts for a user. Free that handle and close the volume again. After
 * every other error the handle is gone. The next open recovers everything that was durable.
 *
 * No other thread may use the volume during the call.
 *
 * Errors: EBUSY; errors of writes that were lost; errors of the log and the device.
 *
 * Contract: `volume` is NULL, or came from this library and was not closed.
 */
int32_t ferroxfs_close(struct ferroxfs_volume *volume, struct ferroxfs_error **error);

/**
 * Makes everything durable that was changed.
 *
 * Errors: the error of the log or the device; errors of writes that were lost.
 */
int32_t ferroxfs_sync(const struct ferroxfs_volume *volume, struct ferroxfs_error **error);

/**
 * Gives the same volume on behalf of a user: every operation through it is allowed or refused as
 * on Linux. New files belong to the user. Without this call, the caller is root.
 *
 * `groups` are `group_count` further groups of the user. On success `*user` is a new handle, which
 * the caller gives back with `ferroxfs_close`, before the volume itself.
 *
 * Contract: `groups` is NULL, or `group_count` numbers can be read from it.
 */
int32_t ferroxfs_as_user(const struct ferroxfs_volume *volume,
                         uint32_t uid,
                         uint32_t gid,
                         const uint32_t *groups,
                         size_t group_count,
                         struct ferroxfs_volume **user,
                         struct ferroxfs_error **error);

/**
 * Gives the root directory. On success `*node` is a new handle; free it with `ferroxfs_node_free`.
 */
int32_t ferroxfs_root(const struct ferroxfs_volume *volume,
                      struct ferroxfs_node **node,
                      struct ferroxfs_error **error);

/**
 * Looks up a path of the volume, from its root on. Symbolic links are followed inside the volume,
 * the last one unless `flags` has FERROXFS_NOFOLLOW.
 *
 * The path has `path_length` bytes, or ends with a NUL if that is FERROXFS_STRLEN. On success
 * `*node` is a new handle; free it with `ferroxfs_node_free`.
 *
 * Errors: ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES; EUCLEAN.
 *
 * Contract: `path` is NULL, or has as many bytes as `path_length` says.
 */
int32_t ferroxfs_lookup(const struct ferroxfs_volume *volume,
                        const char *path,
                        size_t path_length,
                        uint32_t flags,
                        struct ferroxfs_node **node,
                        struct ferroxfs_error **error);

/**
 * Looks up a name in a directory. Symbolic links are not followed. "." and ".." are names, too.
 *
 * On success `*node` is a new handle; free it with `ferroxfs_node_free`.
 *
 * Errors: ENOENT, ENOTDIR, EACCES; EUCLEAN.
 *
 * Contract: `child` is NULL, or has as many bytes as `child_length` says.
 */
int32_t ferroxfs_lookup_child(const struct ferroxfs_node *directory,
                              const char *child,
                              size_t child_length,
                              struct ferroxfs_node **node,
                              struct ferroxfs_error **error);

/**
 * Gives the node of an inode number, such as one that `ferroxfs_stat_node` has returned.
 *
 * On success `*node` is a new handle; free it with `ferroxfs_node_free`.
 *
 * Errors: ESTALE if no file has the number; EUCLEAN.
 */
int32_t ferroxfs_node_by_number(const struct ferroxfs_volume *volume,
                                uint64_t number,
                                struct ferroxfs_node **node,
                                struct ferroxfs_error **error);

/**
 * Gives the sizes of the volume, as statfs(2) does.
 */
int32_t ferroxfs_space_of(const struct ferroxfs_volume *volume,
                          struct ferroxfs_space *space,
                          struct ferroxfs_error **error);

/**
 * Copies the label into `buffer`, without a NUL. It has at most 12 bytes.
 *
 * Returns its length, or a negative errno. With a `capacity` of 0 only the length is returned.
 *
 * Errors: ERANGE if the label is longer than `capacity`.
 *
 * Contract: `buffer` is NULL, or has `capacity` bytes.
 */
int64_t ferroxfs_label(const struct ferroxfs_volume *volume,
                       uint8_t *buffer,
                       size_t capacity,
                       struct ferroxfs_error **error);

/**
 * Copies the UUID into `uuid`, which has 16 bytes.
 *
 * Contract: `uuid` is NULL, or has 16 bytes.
 */
int32_t ferroxfs_uuid(const struct ferroxfs_volume *volume,
                      uint8_t *uuid,
                      struct ferroxfs_error **error);

/**
 * Frees a node. NULL is allowed.
 *
 * Contract: `node` is NULL, or came from this library and was not freed.
 */
void ferroxfs_node_free(struct ferroxfs_node *node);

/**
 * Gives the properties of an inode.
 */
int32_t ferroxfs_stat_node(const struct ferroxfs_node *node,
                           struct ferroxfs_stat *stat,
                           struct ferroxfs_error **error);

/**
 * Copies the target of a symbolic link into `buffer`, without a NUL.
 *
 * Returns its length, or a negative errno. With a `capacity` of 0 only the length is returned.
 *
 * Errors: EINVAL if the node is no link; ERANGE if the target is longer than `capacity`; EUCLEAN.
 *
 * Contract: `buffer` is NULL, or has `capacity` bytes.
 */
int64_t ferroxfs_readlink(const struct ferroxfs_node *node,
                          uint8_t *buffer,
                          size_t capacity,
                          struct ferroxfs_error **error);

/**
 * Changes mode, owner and times of an inode, all in one step.
 *
 * Errors: EINVAL for an unknown flag or a time with too many nanoseconds; EROFS on a volume that
 * is open for reading; EPERM for an immutable file, or for another user than the owner.
 */
int32_t ferroxfs_setattr(const struct ferroxfs_node *node,
                         const struct ferroxfs_attributes *attributes,
                         struct ferroxfs_error **error);

/**
 * Makes an empty regular file with these permission bits. It belongs to root, or to the user of
 * `ferroxfs_as_user`. A umask is not applied.
 *
 * The name has `child_length` bytes, or ends with a NUL if that is FERROXFS_STRLEN. `node` may be
 * NULL. On success `*node` is a new handle; free it with `ferroxfs_node_free`.
 *
 * Errors: EEXIST, ENOTDIR, ENAMETOOLONG, EACCES, ENOSPC; EROFS on a volume that is open for
 * reading.
 *
 * Contract: `child` is NULL, or has as many bytes as `child_length` says.
 */
int32_t ferroxfs_create(const struct ferroxfs_node *directory,
                        const char *child,
                        size_t child_length,
                        uint32_t mode,
                        struct ferroxfs_node **node,
                        struct ferroxfs_error **error);

/**
 * Makes a directory, as `ferroxfs_create` makes a file.
 *
 * Contract: As for `ferroxfs_create`.
 */
int32_t ferroxfs_mkdir(const struct ferroxfs_node *directory,
                       const char *child,
                       size_t child_length,
                       uint32_t mode,
                       struct ferroxfs_node **node,
                       struct ferroxfs_error **error);

/**
 * Makes a symbolic link to `target`, which has 1 to 1023 bytes, as `ferroxfs_create` makes a file.
 * The length of the target may be FERROXFS_STRLEN, too.
 *
 * Contract: `child` and `target` are NULL, or have as many bytes as their lengths say.
 */
int32_t ferroxfs_symlink(const struct ferroxfs_node *directory,
                         const char *child,
                         size_t child_length,
                         const char *target,
                         size_t target_length,
                         struct ferroxfs_node **node,
                         struct ferroxfs_error **error);

/**
 * Gives a file another name in a directory of the same volume.
 *
 * Errors: EEXIST, EPERM for a directory, EMLINK, EXDEV for a file of another volume, ENOSPC;
 * EROFS on a volume that is open for reading.
 *
 * Contract: `child` is NULL, or has as many bytes as `child_length` says.
 */
int32_t ferroxfs_link(const struct ferroxfs_node *directory,
                      const char *child,
                      size_t child_length,
                      const struct ferroxfs_node *file,
                      struct ferroxfs_error **error);

/**
 * Removes a name of a file that is no directory. The file is freed with its last name and its last
 * handle.
 *
 * Errors: ENOENT, EISDIR, EACCES, EPERM; EROFS on a volume that is open for reading.
 *
 * Contract: `child` is NULL, or has as many bytes as `child_length` says.
 */
int32_t ferroxfs_unlink(const struct ferroxfs_node *directory,
                        const char *child,
                        size_t child_length,
                        struct ferroxfs_error **error);

/**
 * Removes an empty directory.
 *
 * Errors: ENOENT, ENOTDIR, ENOTEMPTY, EACCES, EPERM; EROFS on a volume that is open for reading.
 *
 * Contract: `child` is NULL, or has as many bytes as `child_length` says.
 */
int32_t ferroxfs_rmdir(const struct ferroxfs_node *directory,
                       const char *child,
                       size_t child_length,
                       struct ferroxfs_error **error);

/**
 * Moves a name to `target_directory`, which may be the same directory. With `flags` of 0 an
 * existing target is replaced, and no reader finds both names missing.
 *
 * Errors: ENOENT, EEXIST with FERROXFS_RENAME_NOREPLACE or for a directory that is not empty,
 * EISDIR, ENOTDIR, EXDEV, EINVAL for a directory that would become its own descendant, ENOSPC;
 * EROFS on a volume that is open for reading.
 *
 * Contract: `child` and `target` are NULL, or have as many bytes as their lengths say.
 */
int32_t ferroxfs_rename(const struct ferroxfs_node *directory,
                        const char *child,
                        size_t child_length,
                        const struct ferroxfs_node *target_directory,
                        const char *target,
                        size_t target_length,
                        uint32_t flags,
                        struct ferroxfs_error **error);

/**
 * Opens a regular file. `flags` are FERROXFS_READ, FERROXFS_WRITE, or both.
 *
 * On success `*file` is a new handle, which the caller gives back with `ferroxfs_file_close`.
 *
 * Errors: EISDIR for a directory, EINVAL for another file that is not regular, EACCES; EROFS for
 * writing on a volume that is open for reading.
 */
int32_t ferroxfs_file_open(const struct ferroxfs_node *node,
                           uint32_t flags,
                           struct ferroxfs_file **file,
                           struct ferroxfs_error **error);

/**
 * Reads up to `length` bytes from byte `offset` on.
 *
 * Returns the number of bytes, or a negative errno. It is less than `length` only at the end of
 * the file. Holes read as zeros.
 *
 * Errors: EBADF for a file that is not open for reading; EUCLEAN; errors of the device.
 *
 * Contract: `place` is NULL, or has `length` bytes.
 */
int64_t ferroxfs_file_read(const struct ferroxfs_file *file,
                           uint8_t *place,
                           size_t length,
                           uint64_t offset,
                           struct ferroxfs_error **error);

/**
 * Writes bytes at byte `offset`. The file grows as needed.
 *
 * Returns the number of bytes that were written, or a negative errno. It is less than `length`
 * only if the volume became full on the way.
 *
 * Errors: EBADF for a file that is not open for writing; ENOSPC, EFBIG, EPERM; EROFS.
 *
 * Contract: `contents` is NULL, or has `length` bytes.
 */
int64_t ferroxfs_file_write(const struct ferroxfs_file *file,
                            const uint8_t *contents,
                            size_t length,
                            uint64_t offset,
                            struct ferroxfs_error **error);

/**
 * Sets the length of a file. Bytes that are added read as zeros.
 *
 * Errors: EBADF for a file that is not open for writing; ENOSPC, EFBIG, EPERM; EROFS.
 */
int32_t ferroxfs_file_truncate(const struct ferroxfs_file *file,
                               uint64_t length_bytes,
                               struct ferroxfs_error **error);

/**
 * Makes a file durable, as fsync(2) does. With `data_only`, only its contents and its size, as
 * fdatasync(2) does.
 *
 * Errors: the error of a write that was lost; errors of the log and the device.
 */
int32_t ferroxfs_file_sync(const struct ferroxfs_file *file,
                           bool data_only,
                           struct ferroxfs_error **error);

/**
 * Closes a file. The handle is gone, also after an error. NULL is allowed.
 *
 * Bytes that were written are with the device, and durable after the next sync.
 *
 * Errors: the error of a write that was lost.
 *
 * Contract: `file` is NULL, or came from this library and was not closed.
 */
int32_t ferroxfs_file_close(struct ferroxfs_file *file, struct ferroxfs_error **error);

/**
 * Begins to list a directory, without "." and "..".
 *
 * On success `*dir` is a new handle; free it with `ferroxfs_dir_free`.
 *
 * Errors: ENOTDIR, EACCES; EUCLEAN.
 */
int32_t ferroxfs_dir_open(const struct ferroxfs_node *directory,
                          struct ferroxfs_dir **dir,
                          struct ferroxfs_error **error);

/**
 * Gives the next entry.
 *
 * Returns 1 with an entry, 0 at the end, or a negative errno. After an error about damage, the
 * next call continues with the entries that can still be read.
 *
 * Errors: EUCLEAN; errors of the device.
 */
int32_t ferroxfs_dir_next(struct ferroxfs_dir *dir,
                          struct ferroxfs_dirent *entry,
                          struct ferroxfs_error **error);

/**
 * Frees a listing, and the name of its last entry. NULL is allowed.
 *
 * Contract: `dir` is NULL, or came from this library and was not freed.
 */
void ferroxfs_dir_free(struct ferroxfs_dir *dir);

/**
 * Begins to list the extended attributes of a node.
 *
 * On success `*xattrs` is a new handle; free it with `ferroxfs_xattrs_free`.
 */
int32_t ferroxfs_xattrs_open(const struct ferroxfs_node *node,
                             struct ferroxfs_xattrs **xattrs,
                             struct ferroxfs_error **error);

/**
 * Gives the next attribute.
 *
 * Returns 1 with an attribute, 0 at the end, or a negative errno. After an error about damage, the
 * next call continues with the attributes that can still be read.
 */
int32_t ferroxfs_xattrs_next(struct ferroxfs_xattrs *xattrs,
                             struct ferroxfs_xattr *xattr,
                             struct ferroxfs_error **error);

/**
 * Frees a listing, and the name of its last attribute. NULL is allowed.
 *
 * Contract: `xattrs` is NULL, or came from this library and was not freed.
 */
void ferroxfs_xattrs_free(struct ferroxfs_xattrs *xattrs);

/**
 * Copies the value of an extended attribute into `buffer`. The name has its namespace: "user.",
 * "trusted.", "security." or "system.".
 *
 * Returns the length of the value, or a negative errno. With a `capacity` of 0 only the length is
 * returned.
 *
 * Errors: ENODATA if it does not exist; ERANGE if the value is longer than `capacity`; EUCLEAN.
 *
 * Contract: `xattr` is NULL, or has as many bytes as `xattr_length` says. `buffer` is NULL, or has
 * `capacity` bytes.
 */
int64_t ferroxfs_xattr_get(const struct ferroxfs_node *node,
                           const char *xattr,
                           size_t xattr_length,
                           uint8_t *buffer,
                           size_t capacity,
                           struct ferroxfs_error **error);

/**
 * Sets an extended attribute. With `flags` of 0 an existing value is replaced.
 *
 * Errors: EEXIST and ENODATA as the flags say; EPERM, ENOSPC; EROFS on a volume that is open for
 * reading. A name in no namespace gives EOPNOTSUPP, and one of more than 255 bytes ERANGE. A value
 * of more than 64 KiB gives E2BIG.
 *
 * Contract: `xattr` and `value` are NULL, or have as many bytes as their lengths say.
 */
int32_t ferroxfs_xattr_set(const struct ferroxfs_node *node,
                           const char *xattr,
                           size_t xattr_length,
                           const uint8_t *value,
                           size_t value_length,
                           uint32_t flags,
                           struct ferroxfs_error **error);

/**
 * Removes an extended attribute.
 *
 * Errors: ENODATA if it does not exist; EPERM; EROFS on a volume that is open for reading.
 *
 * Contract: `xattr` is NULL, or has as many bytes as `xattr_length` says.
 */
int32_t ferroxfs_xattr_remove(const struct ferroxfs_node *node,
                              const char *xattr,
                              size_t xattr_length,
                              struct ferroxfs_error **error);

/**
 * Returns new options. Never returns NULL. Free them with `ferroxfs_mkfs_options_free`.
 */
struct ferroxfs_mkfs_options *ferroxfs_mkfs_options_new(void);

/**
 * Frees options. NULL is allowed.
 *
 * Contract: `options` is NULL, or came from `ferroxfs_mkfs_options_new` and was not freed.
 */
void ferroxfs_mkfs_options_free(struct ferroxfs_mkfs_options *options);

/**
 * Sets that `ferroxfs_mkfs` makes a new image file of this length. The file must not exist.
 */
void ferroxfs_mkfs_set_length(struct ferroxfs_mkfs_options *options, uint64_t length_bytes);

/**
 * Sets whether a device that holds a filesystem or a partition table is overwritten.
 */
void ferroxfs_mkfs_set_force(struct ferroxfs_mkfs_options *options, bool force);

/**
 * Sets the UUID of the volume, 16 bytes. By default it is random.
 *
 * Errors: EINVAL for NULL.
 *
 * Contract: `uuid` is NULL, or has 16 bytes.
 */
int32_t ferroxfs_mkfs_set_uuid(struct ferroxfs_mkfs_options *options,
                               const uint8_t *uuid,
                               struct ferroxfs_error **error);

/**
 * Sets the label of the volume, at most 12 bytes. The length may be FERROXFS_STRLEN.
 *
 * Errors: EINVAL for a label that is too long or has a NUL.
 *
 * Contract: `label` is NULL, or has as many bytes as `label_length` says.
 */
int32_t ferroxfs_mkfs_set_label(struct ferroxfs_mkfs_options *options,
                                const char *label,
                                size_t label_length,
                                struct ferroxfs_error **error);

/**
 * Sets suboptions of mkfs.xfs by their text: letter 'b' and "size=4096", 'd' and
 * "agcount=4,su=64k", 'i', 'l', 'm', 'n', 'r', 's'.
 *
 * Errors: EINVAL for a suboption that is invalid, unknown, refused or given twice. The message
 * names it.
 *
 * Contract: `suboptions` is NULL or ends with a NUL.
 */
int32_t ferroxfs_mkfs_set(struct ferroxfs_mkfs_options *options,
                          char letter,
                          const char *suboptions,
                          struct ferroxfs_error **error);

/**
 * Makes a volume in an image file or on a block device. `options` may be NULL.
 *
 * Nothing is written before all options have passed their checks. The log and the realtime section
 * are on the same device.
 *
 * Errors: EINVAL for options that are impossible on the device; EBUSY if another program uses it;
 * errors of the host. Without force, a device with a filesystem or a partition table gives EEXIST.
 * With a length, a file that exists gives EEXIST.
 *
 * Contract: `path` is NULL or ends with a NUL.
 */
int32_t ferroxfs_mkfs(const char *path,
                      const struct ferroxfs_mkfs_options *options,
                      struct ferroxfs_error **error);

/**
 * Makes a volume on a device of the caller. `options` may be NULL; a length in them is refused.
 *
 * The library copies `device`. It calls `destroy` once, at the end of this call. Only an unknown
 * `size_bytes` prevents that.
 *
 * Errors: those of `ferroxfs_mkfs`.
 */
int32_t ferroxfs_mkfs_device(const struct ferroxfs_device *device,
                             const struct ferroxfs_mkfs_options *options,
                             struct ferroxfs_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FERROXFS_H */
