/* Makes a volume in a new image file, writes to it, lists it and reads it back.
 *
 *     cc tour.c $(pkg-config --cflags --libs ferroxfs) -o tour
 *     ./tour new.img
 *
 * Every function returns 0, or a negative errno. Its last argument receives an error object with
 * the message; it may be NULL. Every handle has one function that frees it. */

#include <errno.h>
#include <ferroxfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Ends the program with the message of an error. */
static void fail(const char *what, ferroxfs_error *error)
{
    fprintf(stderr, "tour: %s: %s\n", what, ferroxfs_error_message(error));
    if (ferroxfs_error_kind(error) == FERROXFS_KIND_CORRUPT)
        fprintf(stderr, "tour: damaged: %s at %s: %s\n", ferroxfs_error_structure(error),
                ferroxfs_error_address(error), ferroxfs_error_check(error));
    ferroxfs_error_free(error);
    exit(1);
}

/* Makes a file in a directory, with these contents. */
static void put(const ferroxfs_node *directory, const char *name, const char *text)
{
    ferroxfs_error *error = NULL;
    ferroxfs_node *node = NULL;
    ferroxfs_file *file = NULL;
    size_t length = strlen(text), done = 0;

    if (ferroxfs_create(directory, name, FERROXFS_STRLEN, 0644, &node, &error) < 0)
        fail("cannot make the file", error);
    if (ferroxfs_file_open(node, FERROXFS_WRITE, &file, &error) < 0)
        fail("cannot open the file", error);
    while (done < length) {
        int64_t count = ferroxfs_file_write(file, (const uint8_t *)text + done, length - done,
                                            done, &error);
        if (count < 0)
            fail("cannot write", error);
        done += (size_t)count;
    }
    if (ferroxfs_file_sync(file, false, &error) < 0)
        fail("cannot make the file durable", error);
    if (ferroxfs_file_close(file, &error) < 0)
        fail("cannot close the file", error);
    ferroxfs_node_free(node);
}

static void write_tree(const char *image)
{
    ferroxfs_error *error = NULL;
    ferroxfs_volume *volume = NULL;
    ferroxfs_node *root = NULL, *etc = NULL, *hostname = NULL;
    ferroxfs_options *options = ferroxfs_options_new();

    ferroxfs_options_set_write(options, true);
    if (ferroxfs_open(image, options, &volume, &error) < 0)
        fail("cannot open the volume", error);
    ferroxfs_options_free(options);
    if (ferroxfs_root(volume, &root, &error) < 0)
        fail("cannot find the root", error);
    if (ferroxfs_mkdir(root, "etc", FERROXFS_STRLEN, 0755, &etc, &error) < 0)
        fail("cannot make the directory", error);
    put(etc, "hostname", "box\n");
    put(etc, "issue.new", "Welcome\n");
    if (ferroxfs_rename(etc, "issue.new", FERROXFS_STRLEN, etc, "issue", FERROXFS_STRLEN, 0,
                        &error) < 0)
        fail("cannot rename", error);
    if (ferroxfs_symlink(etc, "name", FERROXFS_STRLEN, "hostname", FERROXFS_STRLEN, NULL,
                         &error) < 0)
        fail("cannot make the link", error);
    if (ferroxfs_lookup_child(etc, "hostname", FERROXFS_STRLEN, &hostname, &error) < 0)
        fail("cannot find the file", error);
    if (ferroxfs_xattr_set(hostname, "user.origin", FERROXFS_STRLEN, (const uint8_t *)"tour", 4,
                           0, &error) < 0)
        fail("cannot set the attribute", error);

    /* A name that is taken: the errno says so, and the object has the message. */
    int status = ferroxfs_mkdir(root, "etc", FERROXFS_STRLEN, 0755, NULL, &error);
    if (status != -EEXIST)
        fail("a second directory of the same name", error);
    printf("as expected: %s\n", ferroxfs_error_message(error));
    ferroxfs_error_free(error);

    /* Handles first, the volume last: with a handle left, close fails with EBUSY. */
    ferroxfs_node_free(hostname);
    ferroxfs_node_free(etc);
    ferroxfs_node_free(root);
    if (ferroxfs_close(volume, &error) < 0)
        fail("cannot close the volume", error);
}

/* Prints a directory and everything below it. */
static void list(const ferroxfs_node *directory, unsigned depth)
{
    ferroxfs_error *error = NULL;
    ferroxfs_dir *dir = NULL;
    ferroxfs_dirent entry;
    int more;

    if (ferroxfs_dir_open(directory, &dir, &error) < 0)
        fail("cannot list the directory", error);
    while ((more = ferroxfs_dir_next(dir, &entry, &error)) > 0) {
        ferroxfs_node *node = NULL;
        ferroxfs_stat stat;

        if (ferroxfs_lookup_child(directory, entry.name, entry.name_length, &node, &error) < 0)
            fail("cannot find the entry", error);
        if (ferroxfs_stat_node(node, &stat, &error) < 0)
            fail("cannot read the inode", error);
        printf("%06o %6llu %*s%.*s\n", stat.mode, (unsigned long long)stat.size, (int)depth * 2,
               "", (int)entry.name_length, entry.name);
        if (S_ISDIR(stat.mode))
            list(node, depth + 1);
        ferroxfs_node_free(node);
    }
    if (more < 0)
        fail("cannot read the directory", error);
    ferroxfs_dir_free(dir);
}

static void read_tree(const char *image)
{
    ferroxfs_error *error = NULL;
    ferroxfs_volume *volume = NULL;
    ferroxfs_node *root = NULL, *node = NULL;
    ferroxfs_file *file = NULL;
    ferroxfs_xattrs *xattrs = NULL;
    ferroxfs_xattr xattr;
    uint8_t text[64];

    if (ferroxfs_open(image, NULL, &volume, &error) < 0)
        fail("cannot open the volume", error);
    if (ferroxfs_root(volume, &root, &error) < 0)
        fail("cannot find the root", error);
    list(root, 0);

    /* The path leads through a symbolic link. */
    if (ferroxfs_lookup(volume, "/etc/name", FERROXFS_STRLEN, 0, &node, &error) < 0)
        fail("cannot find the path", error);
    if (ferroxfs_file_open(node, FERROXFS_READ, &file, &error) < 0)
        fail("cannot open the file", error);
    int64_t count = ferroxfs_file_read(file, text, sizeof text, 0, &error);
    if (count < 0)
        fail("cannot read", error);
    printf("/etc/name: %.*s", (int)count, (const char *)text);
    if (ferroxfs_file_close(file, &error) < 0)
        fail("cannot close the file", error);

    if (ferroxfs_xattrs_open(node, &xattrs, &error) < 0)
        fail("cannot list the attributes", error);
    while (ferroxfs_xattrs_next(xattrs, &xattr, &error) > 0) {
        count = ferroxfs_xattr_get(node, xattr.name, xattr.name_length, text, sizeof text, &error);
        if (count < 0)
            fail("cannot read the attribute", error);
        printf("%s=%.*s\n", xattr.name, (int)count, (const char *)text);
    }
    if (error != NULL)
        fail("cannot list the attributes", error);
    ferroxfs_xattrs_free(xattrs);

    ferroxfs_node_free(node);
    ferroxfs_node_free(root);
    if (ferroxfs_close(volume, &error) < 0)
        fail("cannot close the volume", error);
}

int main(int argc, char **argv)
{
    ferroxfs_error *error = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: tour IMAGE\n");
        return 2;
    }
    ferroxfs_mkfs_options *options = ferroxfs_mkfs_options_new();
    ferroxfs_mkfs_set_length(options, 300 << 20);
    if (ferroxfs_mkfs_set_label(options, "tour", FERROXFS_STRLEN, &error) < 0)
        fail("cannot set the label", error);
    if (ferroxfs_mkfs(argv[1], options, &error) < 0)
        fail("cannot make the volume", error);
    ferroxfs_mkfs_options_free(options);

    write_tree(argv[1]);
    read_tree(argv[1]);
    return 0;
}
