#!/bin/sh
# Makes an image that holds every structure of the format at least once; packed, it is
# testdata/golden.image. Needs root, a kernel with XFS, xfsprogs, attr, acl.
#
#   MKFS=mkfs.xfs REPAIR=xfs_repair testdata/golden.sh OUTPUT
#
# mkfs.xfs must know parent pointers (xfsprogs 6.10 or newer).
#
# The volume is made by mkfs.xfs and filled by the kernel; its log is then emptied, and
# `cargo run -p xfs-testkit --example pack` keeps the sectors that are not zero.
set -eu
output=$1
work=$(mktemp -d)
image=$work/image
mount=$work/mount
mkdir "$mount"
trap 'cd /; umount "$mount" 2>/dev/null || true; rm -rf "$work"' EXIT

# Below the size that mkfs.xfs allows to ordinary users; these variables make it test mode.
TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 "${MKFS:-mkfs.xfs}" -q -b size=1024 -l size=5m -n parent=1 \
    -i size=512,nrext64=1 -m rmapbt=1,reflink=1,bigtime=1,finobt=1,inobtcount=1 \
    -m uuid=f0000000-0000-4000-8000-00000000c0de -L golden \
    -d "file,name=$image,size=32m,agcount=2"
mount -o loop,nosuid,nodev "$image" "$mount"
cd "$mount"

# Directories: short form, block, leaf, node; names that are not text.
mkdir short block leaf node deep
for name in a bb ccc; do echo "$name" > "short/$name"; done
for n in $(seq 60); do ln short/a "block/block-$n"; done
for n in $(seq 200); do ln short/a "leaf/leaf-entry-$n"; done
for n in $(seq 1200); do ln short/bb "node/a-longer-node-entry-$n"; done
for n in $(seq 3 3 1200); do rm "node/a-longer-node-entry-$n"; done
touch "short/$(printf 'not-utf8-\377\376')"
mkdir -p deep/1/2/3/4/5/6/7/8

# Extents: none, holes, unwritten, a tree of two levels, shared.
mkdir files
: > files/empty
xfs_io -f -c 'pwrite -q 100k 1k' -c 'truncate 1m' files/sparse
xfs_io -f -c 'falloc 0 64k' -c 'pwrite -q 8k 4k' files/unwritten
xfs_io -f -c 'falloc 0 1600k' files/tree
for n in $(seq 0 2 1598); do echo "fpunch ${n}k 1k"; done | xfs_io files/tree > /dev/null
xfs_io -f -c 'pwrite -q -S 0x61 0 40k' files/original
cp --reflink=always files/original files/shared
truncate -s 7E files/long

# Links and special files.
ln -s target links-inline
ln -s "$(printf 'x%.0s' $(seq 1000))" links-remote
mknod fifo p
mknod null c 1 3
mknod disk b 8 1

# Attributes: short form, leaf, node, remote values, an access list.
touch attr-short attr-leaf attr-node attr-remote acl
setfattr -n user.one -v 1 attr-short
for n in $(seq 12); do setfattr -n "user.leaf-$n" -v "value-$n" attr-leaf; done
for n in $(seq 120); do setfattr -n "user.node-attribute-$n" -v "value-$n" attr-node; done
setfattr -n user.remote -v "$(printf 'v%.0s' $(seq 3000))" attr-remote
setfacl -m u:1000:rw,g:1000:r acl
setfacl -d -m u:1000:rwx deep

# Inode chunks in several places, with free inodes between.
mkdir many
for n in $(seq 900); do : > "many/$n"; done
for n in $(seq 1 4 900); do rm "many/$n"; done
chattr +i files/empty

cd /
umount "$mount"
# What the log holds is replayed: empty it, it would be most of the file.
"${REPAIR:-xfs_repair}" -L "$image" > /dev/null 2>&1
cp "$image" "$output"
