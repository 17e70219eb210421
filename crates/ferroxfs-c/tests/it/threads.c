/* Two threads change and read one volume at the same time. Each makes files in a directory of its
 * own and in a shared one, and reads what it has written. */

#include <ferroxfs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 40 };

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition,                          \
                    error ? ferroxfs_error_message(error) : "no error");                        \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

struct task {
    const ferroxfs_volume *volume;
    const ferroxfs_node *shared;
    unsigned number;
};

static void write_and_read(const ferroxfs_node *directory, const char *name)
{
    ferroxfs_error *error = NULL;
    ferroxfs_node *node = NULL;
    ferroxfs_file *file = NULL;
    uint8_t back[64];
    size_t length = strlen(name);

    CHECK(ferroxfs_create(directory, name, FERROXFS_STRLEN, 0600, &node, &error) == 0);
    CHECK(ferroxfs_file_open(node, FERROXFS_READ | FERROXFS_WRITE, &file, &error) == 0);
    CHECK(ferroxfs_file_write(file, (const uint8_t *)name, length, 0, &error) == (int64_t)length);
    CHECK(ferroxfs_file_read(file, back, sizeof back, 0, &error) == (int64_t)length);
    CHECK(memcmp(back, name, length) == 0);
    CHECK(ferroxfs_file_close(file, &error) == 0);
    ferroxfs_node_free(node);
}

static void *run(void *argument)
{
    struct task *task = argument;
    ferroxfs_error *error = NULL;
    ferroxfs_node *root = NULL, *own = NULL;
    char name[64];

    CHECK(ferroxfs_root(task->volume, &root, &error) == 0);
    snprintf(name, sizeof name, "thread-%u", task->number);
    CHECK(ferroxfs_mkdir(root, name, FERROXFS_STRLEN, 0755, &own, &error) == 0);
    for (unsigned at = 0; at < FILES; at++) {
        snprintf(name, sizeof name, "file-%u-%u", task->number, at);
        write_and_read(own, name);
        write_and_read(task->shared, name);
    }
    ferroxfs_node_free(own);
    ferroxfs_node_free(root);
    return NULL;
}

static unsigned count(const ferroxfs_node *directory)
{
    ferroxfs_error *error = NULL;
    ferroxfs_dir *dir = NULL;
    ferroxfs_dirent entry;
    unsigned entries = 0;

    CHECK(ferroxfs_dir_open(directory, &dir, &error) == 0);
    while (ferroxfs_dir_next(dir, &entry, &error) > 0)
        entries++;
    CHECK(error == NULL);
    ferroxfs_dir_free(dir);
    return entries;
}

int main(int argc, char **argv)
{
    ferroxfs_error *error = NULL;
    ferroxfs_volume *volume = NULL;
    ferroxfs_node *root = NULL, *shared = NULL;
    ferroxfs_mkfs_options *made = ferroxfs_mkfs_options_new();
    ferroxfs_options *options = ferroxfs_options_new();
    pthread_t threads[2];
    struct task tasks[2];

    if (argc != 2)
        return 2;
    ferroxfs_mkfs_set_length(made, 300 << 20);
    CHECK(ferroxfs_mkfs(argv[1], made, &error) == 0);
    ferroxfs_mkfs_options_free(made);
    ferroxfs_options_set_write(options, true);
    CHECK(ferroxfs_open(argv[1], options, &volume, &error) == 0);
    ferroxfs_options_free(options);
    CHECK(ferroxfs_root(volume, &root, &error) == 0);
    CHECK(ferroxfs_mkdir(root, "shared", FERROXFS_STRLEN, 0755, &shared, &error) == 0);

    for (unsigned number = 0; number < 2; number++) {
        tasks[number] = (struct task){volume, shared, number};
        CHECK(pthread_create(&threads[number], NULL, run, &tasks[number]) == 0);
    }
    for (unsigned number = 0; number < 2; number++)
        CHECK(pthread_join(threads[number], NULL) == 0);

    CHECK(count(shared) == 2 * FILES);
    CHECK(count(root) == 3);
    ferroxfs_node_free(shared);
    ferroxfs_node_free(root);
    CHECK(ferroxfs_close(volume, &error) == 0);
    puts("2 threads");
    return 0;
}
