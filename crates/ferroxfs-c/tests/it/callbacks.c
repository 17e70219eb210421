/* A volume on a device of this program, and everything that a call may be given by mistake. */

#include <errno.h>
#include <ferroxfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition,                          \
                    error ? ferroxfs_error_message(error) : "no error");                        \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

/* The call fails with this errno, and leaves an error object. */
#define FAILS(call, number)                                                                     \
    do {                                                                                        \
        CHECK((call) == -(number));                                                             \
        CHECK(error != NULL);                                                                   \
        CHECK(ferroxfs_error_errno(error) == (number));                                         \
        CHECK(strlen(ferroxfs_error_message(error)) > 0);                                       \
        ferroxfs_error_free(error);                                                             \
        error = NULL;                                                                           \
    } while (0)

enum { LENGTH = 300 << 20 };

struct memory {
    uint8_t *bytes;
    int status;
    unsigned destroyed;
};

static int32_t memory_read(void *user, uint8_t *buffer, size_t length, uint64_t offset)
{
    struct memory *memory = user;
    if (memory->status != 0)
        return memory->status;
    memcpy(buffer, memory->bytes + offset, length);
    return 0;
}

static int32_t memory_write(void *user, const uint8_t *buffer, size_t length, uint64_t offset,
                            bool durable)
{
    struct memory *memory = user;
    (void)durable;
    memcpy(memory->bytes + offset, buffer, length);
    return 0;
}

static int32_t memory_flush(void *user)
{
    (void)user;
    return 0;
}

static void memory_destroy(void *user)
{
    ((struct memory *)user)->destroyed++;
}

static ferroxfs_device device_of(struct memory *memory)
{
    ferroxfs_device device = {0};
    device.size_bytes = sizeof device;
    device.user_data = memory;
    device.length_bytes = LENGTH;
    device.sector_size = 512;
    device.read = memory_read;
    device.write = memory_write;
    device.flush = memory_flush;
    device.destroy = memory_destroy;
    return device;
}

static void devices(struct memory *memory)
{
    ferroxfs_error *error = NULL;
    ferroxfs_volume *volume = NULL;
    ferroxfs_device device = device_of(memory);

    FAILS(ferroxfs_open_device(NULL, NULL, &volume, &error), EINVAL);
    FAILS(ferroxfs_open_device(&device, NULL, &volume, &error), EUCLEAN); /* no volume yet */
    CHECK(memory->destroyed == 1 && volume == NULL);
    device.size_bytes = 8;
    FAILS(ferroxfs_open_device(&device, NULL, &volume, &error), EINVAL);
    CHECK(memory->destroyed == 1);
    device = device_of(memory);
    device.flush = NULL;
    FAILS(ferroxfs_open_device(&device, NULL, &volume, &error), EINVAL);
    CHECK(memory->destroyed == 2);

    device = device_of(memory);
    CHECK(ferroxfs_mkfs_device(&device, NULL, &error) == 0);
    CHECK(memory->destroyed == 3);
    FAILS(ferroxfs_mkfs_device(&device, NULL, &error), EEXIST);

    memory->destroyed = 0;
    memory->status = -EIO;
    FAILS(ferroxfs_open_device(&device, NULL, &volume, &error), EIO);
    memory->status = 512; /* as read(2) would return it */
    FAILS(ferroxfs_open_device(&device, NULL, &volume, &error), EIO);
    memory->status = 0;
    CHECK(memory->destroyed == 2);
}

static void mistakes(struct memory *memory)
{
    ferroxfs_error *error = NULL;
    ferroxfs_volume *volume = NULL, *user = NULL;
    ferroxfs_node *root = NULL, *node = NULL;
    ferroxfs_file *file = NULL;
    ferroxfs_dir *dir = NULL;
    ferroxfs_attributes attributes = {.set = FERROXFS_SET_MODE, .mode = 0640};
    ferroxfs_stat stat;
    ferroxfs_space space;
    ferroxfs_options *options = ferroxfs_options_new();
    ferroxfs_device device = device_of(memory);
    uint8_t bytes[16], uuid[16];
    uint32_t groups[2] = {100, 101};

    ferroxfs_options_set_partition(options, 1);
    FAILS(ferroxfs_open_device(&device, options, &volume, &error), EINVAL);
    CHECK(memory->destroyed == 1);
    ferroxfs_options_free(options);
    memory->destroyed = 0;
    options = ferroxfs_options_new();
    ferroxfs_options_set_write(options, true);
    CHECK(ferroxfs_open_device(&device, options, &volume, &error) == 0);
    ferroxfs_options_free(options);
    FAILS(ferroxfs_root(NULL, &root, &error), EINVAL);
    FAILS(ferroxfs_root(volume, NULL, &error), EINVAL);
    CHECK(ferroxfs_root(volume, NULL, NULL) == -EINVAL);
    CHECK(ferroxfs_root(volume, &root, &error) == 0);
    FAILS(ferroxfs_close(volume, &error), EBUSY);

    FAILS(ferroxfs_lookup(volume, NULL, 3, 0, &node, &error), EINVAL);
    FAILS(ferroxfs_lookup(volume, "/none", FERROXFS_STRLEN, 0, &node, &error), ENOENT);
    FAILS(ferroxfs_lookup(volume, "/", 1, 77, &node, &error), EINVAL);
    CHECK(node == NULL);
    FAILS(ferroxfs_create(root, "a/b", FERROXFS_STRLEN, 0644, &node, &error), EINVAL);
    FAILS(ferroxfs_create(root, "a", FERROXFS_STRLEN, 0100644, &node, &error), EINVAL);
    CHECK(ferroxfs_create(root, "abc", 1, 0644, &node, &error) == 0); /* the length counts */
    FAILS(ferroxfs_unlink(root, "abc", FERROXFS_STRLEN, &error), ENOENT);
    CHECK(ferroxfs_link(root, "b", FERROXFS_STRLEN, node, &error) == 0);
    CHECK(ferroxfs_unlink(root, "b", FERROXFS_STRLEN, &error) == 0);
    FAILS(ferroxfs_dir_open(node, &dir, &error), ENOTDIR);
    FAILS(ferroxfs_readlink(node, bytes, sizeof bytes, &error), EINVAL);
    FAILS(ferroxfs_file_open(node, 4, &file, &error), EINVAL);
    FAILS(ferroxfs_file_open(root, FERROXFS_READ, &file, &error), EISDIR);

    CHECK(ferroxfs_file_open(node, FERROXFS_READ, &file, &error) == 0);
    FAILS(ferroxfs_file_write(file, bytes, 1, 0, &error), EBADF);
    FAILS(ferroxfs_file_read(file, NULL, 1, 0, &error), EINVAL);
    CHECK(ferroxfs_file_read(file, NULL, 0, 0, &error) == 0);
    CHECK(ferroxfs_file_close(file, &error) == 0);

    CHECK(ferroxfs_setattr(node, &attributes, &error) == 0);
    CHECK(ferroxfs_stat_node(node, &stat, &error) == 0 && stat.mode == 0100640);
    attributes.set = 1u << 31;
    FAILS(ferroxfs_setattr(node, &attributes, &error), EINVAL);

    CHECK(ferroxfs_xattr_set(node, "user.k", FERROXFS_STRLEN, (const uint8_t *)"value", 5, 0,
                             &error) == 0);
    FAILS(ferroxfs_xattr_set(node, "user.k", FERROXFS_STRLEN, NULL, 0, FERROXFS_XATTR_CREATE,
                             &error), EEXIST);
    CHECK(ferroxfs_xattr_get(node, "user.k", FERROXFS_STRLEN, NULL, 0, &error) == 5);
    FAILS(ferroxfs_xattr_get(node, "user.k", FERROXFS_STRLEN, bytes, 4, &error), ERANGE);
    CHECK(ferroxfs_xattr_remove(node, "user.k", FERROXFS_STRLEN, &error) == 0);
    FAILS(ferroxfs_xattr_get(node, "user.k", FERROXFS_STRLEN, bytes, 4, &error), ENODATA);

    CHECK(ferroxfs_as_user(volume, 1000, 1000, groups, 2, &user, &error) == 0);
    ferroxfs_node *theirs = NULL;
    CHECK(ferroxfs_root(user, &theirs, &error) == 0);
    FAILS(ferroxfs_mkdir(theirs, "no", FERROXFS_STRLEN, 0755, NULL, &error), EACCES);
    ferroxfs_node_free(theirs);
    CHECK(ferroxfs_close(user, &error) == 0);

    CHECK(ferroxfs_space_of(volume, &space, &error) == 0 && space.block_size == 4096);
    CHECK(ferroxfs_uuid(volume, uuid, &error) == 0);
    CHECK(ferroxfs_label(volume, bytes, sizeof bytes, &error) == 0);
    CHECK(strcmp(ferroxfs_version(), FERROXFS_VERSION) == 0);

    ferroxfs_node_free(node);
    ferroxfs_node_free(root);
    ferroxfs_node_free(NULL);
    ferroxfs_error_free(NULL);
    CHECK(ferroxfs_close(NULL, &error) == 0);
    CHECK(ferroxfs_close(volume, &error) == 0);
    CHECK(memory->destroyed == 1);
}

/* Damage has a structure, an address and a check. */
static void damage(struct memory *memory)
{
    enum { ROOT = 128, INODE_SIZE = 512 };
    ferroxfs_error *error = NULL;
    ferroxfs_volume *volume = NULL;
    ferroxfs_node *root = NULL;
    ferroxfs_device device = device_of(memory);

    memory->bytes[ROOT * INODE_SIZE + 50] ^= 1;
    int status = ferroxfs_open_device(&device, NULL, &volume, &error);
    if (status == 0)
        status = ferroxfs_root(volume, &root, &error);
    CHECK(status == -EUCLEAN && ferroxfs_error_kind(error) == FERROXFS_KIND_CORRUPT);
    CHECK(strcmp(ferroxfs_error_structure(error), "inode") == 0);
    CHECK(strcmp(ferroxfs_error_address(error), "inode 128") == 0);
    CHECK(strstr(ferroxfs_error_check(error), "checksum") != NULL);
    ferroxfs_error_free(error);
    CHECK(ferroxfs_close(volume, &error) == 0);
    CHECK(ferroxfs_error_structure(error) == NULL);
}

int main(void)
{
    struct memory memory = {calloc(1, LENGTH), 0, 0};
    if (memory.bytes == NULL)
        return 77;
    devices(&memory);
    memory.destroyed = 0;
    mistakes(&memory);
    damage(&memory);
    free(memory.bytes);
    puts("callbacks");
    return 0;
}
