#!/bin/sh
# Makes the header sectors and btree blocks in this folder anew, as root: make.sh SCRATCH_FOLDER
#
# NEW_MKFS is an mkfs.xfs that knows metadata directories and zones (xfsprogs 6.15); the others come
# from one that leaves parent pointers and the reverse map off (6.1).
#
# NAME.headers are the four header sectors of the first allocation group, NAME.copy is the second
# superblock. The blocks of the volume "aged", of 1 KiB, are named by btree and level; the file
# "addresses" says at which disk address each one lies.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$1
image=$scratch/image
log=$scratch/log
mount=$scratch/mount
# mkfs.xfs makes small volumes and single groups only for tests.
export TEST_DIR=$mount TEST_DEV=$image QA_CHECK_FS=1

volume() { # SIZE MKFS_OPTIONS...
    rm -f "$image"
    truncate -s "$1" "$image"
    shift
    mkfs.xfs -q "$@" "$image"
}
headers() { # NAME SECTOR_BYTES
    dd if="$image" of="$here/$1.headers" bs="$2" count=4 status=none
}
superblock() { # NAME SECTOR_BYTES
    dd if="$image" of="$here/$1.superblock" bs="$2" count=1 status=none
}
copy() { # NAME GROUP_BYTES
    dd if="$image" of="$here/$1.copy" bs=512 skip="$(($2 / 512))" count=1 status=none
}
block() { # NAME XFS_DB_COMMANDS...
    name=$1
    shift
    address=$(for command in "$@" daddr; do printf '%s\n' "$command"; done |
        xfs_db -r "$image" | sed -n 's/.*current daddr is //p')
    dd if="$image" of="$here/$name.block" bs=512 skip="$address" count=2 status=none
    echo "$name $address" >> "$here/addresses"
}

volume 300M -m uuid=20000000-0000-4000-8000-000000000001
headers plain 512
copy plain 78643200
volume 300M -b size=1k -m uuid=20000000-0000-4000-8000-000000000002
headers small-blocks 512
volume 2G -b size=64k -m uuid=20000000-0000-4000-8000-000000000003
headers large-blocks 512
volume 300M -s size=4096 -m uuid=20000000-0000-4000-8000-000000000004
superblock large-sectors 4096
volume 300M -i size=2048,sparse=0 -m finobt=0,reflink=0,bigtime=0,inobtcount=0 \
    -m uuid=20000000-0000-4000-8000-000000000005
headers few-features 512
volume 2G -d su=128k,sw=3 -l su=64k -m uuid=20000000-0000-4000-8000-000000000006
superblock stripe 512
truncate -s 64M "$log"
volume 300M -l logdev="$log",size=32m -m uuid=20000000-0000-4000-8000-000000000007
superblock external-log 512
rm "$log"
volume 16M -m uuid=20000000-0000-4000-8000-000000000008
superblock tiny 512
truncate -s 1G "$log"
volume 300M -r rtdev="$log" -m reflink=0,uuid=20000000-0000-4000-8000-00000000000c
superblock realtime 512
rm "$log"
new=${NEW_MKFS:-mkfs.xfs}
truncate -s 1G "$image"
"$new" -q -f -m metadir=1,uuid=20000000-0000-4000-8000-00000000000d "$image"
superblock metadir 512
rm "$image"
truncate -s 4G "$image"
"$new" -q -r zoned=1 -m uuid=20000000-0000-4000-8000-00000000000e "$image"
superblock zoned 512
volume 300M -m uuid=20000000-0000-4000-8000-000000000009
xfs_admin -U 20000000-0000-4000-8000-00000000000a "$image" > "$scratch/output"
rm "$scratch/output"
headers changed-uuid 512

volume 300M -b size=1k -d agcount=1 -m rmapbt=1 -m uuid=20000000-0000-4000-8000-00000000000b
mkdir -p "$mount"
mount -o loop "$image" "$mount"
mkdir "$mount/files"
# Files of several sizes, every second one removed: much free space in short pieces.
for i in $(seq 12000); do head -c $((1024 * (1 + i % 7))) /dev/zero > "$mount/files/$i"; done
for i in $(seq 1 2 12000); do rm "$mount/files/$i"; done
# Every second block of a file, and a copy that shares all but every third of those.
python3 -c '
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for block in range(0, 8000, 2):
    os.pwrite(file, b"x" * 1024, block * 1024)
' "$mount/pieces"
cp --reflink=always "$mount/pieces" "$mount/shared"
python3 -c '
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY)
for block in range(0, 8000, 6):
    os.pwrite(file, b"y" * 1024, block * 1024)
' "$mount/shared"
pieces=$(stat -c %i "$mount/pieces")
sync
umount "$mount"
rmdir "$mount"
headers aged 512
: > "$here/addresses"
block by-block-node 'agf 0' 'addr bnoroot'
block by-block-leaf 'agf 0' 'addr bnoroot' 'addr ptrs[1]'
block by-size-node 'agf 0' 'addr cntroot'
block by-size-leaf 'agf 0' 'addr cntroot' 'addr ptrs[1]'
block inode-node 'agi 0' 'addr root'
block inode-leaf 'agi 0' 'addr root' 'addr ptrs[1]'
block free-inode-leaf 'agi 0' 'addr free_root' 'addr ptrs[1]'
block reverse-map-node 'agf 0' 'addr rmaproot'
block reverse-map-leaf 'agf 0' 'addr rmaproot' 'addr ptrs[1]' 'addr ptrs[1]' 'addr ptrs[1]'
block refcount-node 'agf 0' 'addr refcntroot'
block refcount-leaf 'agf 0' 'addr refcntroot' 'addr ptrs[1]'
block extent-node "inode $pieces" 'addr u3.bmbt.ptrs[1]'
block extent-leaf "inode $pieces" 'addr u3.bmbt.ptrs[1]' 'addr ptrs[1]'
rm "$image"
