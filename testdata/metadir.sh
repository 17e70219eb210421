#!/bin/sh
# Makes a volume with a metadata directory and no realtime section; packed, it is
# testdata/metadir.image. Needs root, Linux 6.13 or newer with XFS, and attr.
#
#   MKFS=mkfs.xfs REPAIR=xfs_repair testdata/metadir.sh OUTPUT
#
# mkfs.xfs must know metadata directories (xfsprogs 6.13 or newer). `cargo run -p xfs-testkit
# --example pack` then packs the image.
set -eu
output=$1
work=$(mktemp -d)
mount=$work/mount
mkdir "$mount"
trap 'cd /; umount "$mount" 2>/dev/null || true; rm -rf "$work"' EXIT

truncate -s 40m "$work/image"
"${MKFS:-mkfs.xfs}" -q --unsupported -d agcount=2 -L metadir \
    -m metadir=1,uuid=f0000000-0000-4000-8000-0000000000c4 "$work/image" 2> /dev/null
mount -o loop,nosuid,nodev "$work/image" "$mount"
cd "$mount"
mkdir d many
xfs_io -f -c 'pwrite -q -S 0x61 0 40k' d/text
xfs_io -f -c 'pwrite -q -S 0x62 100k 1k' -c 'truncate 1m' d/sparse
cp --reflink=always d/text d/shared
xfs_io -c 'pwrite -q -S 0x64 8k 8k' d/shared
ln -s text d/link
ln d/text d/also
setfattr -n user.a -v value d/text
for n in $(seq 100); do : > "many/a-name-of-a-file-$n"; done
cd /
umount "$mount"
# The log is replayed. Emptied, it takes less space.
"${REPAIR:-xfs_repair}" -L "$work/image" > /dev/null 2>&1
cp "$work/image" "$output"
