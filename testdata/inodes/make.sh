#!/bin/sh
# Makes the records in this folder anew, as root: make.sh SCRATCH_FOLDER
#
# Everything lies in the first allocation group, with blocks of 1 KiB and inodes of 512 bytes, so that inode N lies at byte N * 512
# and block N at byte N * 1024. A record is the inode of one file, cut out of the image.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$1
image=$scratch/image
mount=$scratch/mount

record() { # NAME INODE
    dd if="$image" of="$here/$1.inode" bs=512 skip="$2" count=1 status=none
}
block() { # NAME BLOCK
    dd if="$image" of="$here/$1.block" bs=1024 skip="$2" count=1 status=none
}
number() { stat -c %i "$mount/$1"; }
field() { # INODE FIELD
    xfs_db -r -c "inode $1" -c "print $2" "$image"
}

volume() { # NAME MKFS_OPTIONS...
    name=$1
    shift
    rm -f "$image"
    truncate -s 300M "$image"
    mkfs.xfs -q -b size=1024 -d agcount=2 "$@" "$image"
    mkdir -p "$mount"
    mount -o loop "$image" "$mount"
}

volume new -i nrext64=1 -m bigtime=1,reflink=1,rmapbt=0 -m uuid=10000000-0000-4000-8000-000000000001
cd "$mount"
: > empty
echo hello > text
setfacl -m u:1000:rwx,g:5:r text
setfattr -n user.colour -v blue text
xfs_io -f -c 'pwrite -S 0x41 0 1k' -c 'falloc 4k 4k' -c 'pwrite -S 0x42 5k 1k' -c 'truncate 1m' holes
xfs_io -f -c 'pwrite -S 0x43 0 60k' fragments
for i in $(seq 0 2 58); do xfs_io -c "fpunch ${i}k 1k" fragments; done
ln -s target link
ln -s "$(printf 't%.0s' $(seq 500))" longlink
mknod character c 5 1
mknod block b 259 100000
mkfifo fifo
: > hints
xfs_io -c 'extsize 64k' -c 'cowextsize 128k' -c 'chproj 123456789' -c 'chattr +A' hints
touch -d '2200-01-01 00:00:00.5 UTC' hints
: > removed
directory=$(number .)
removed=$(number removed)
rm removed
cd "$here"
for name in empty text holes fragments link longlink character block fifo hints; do
    eval "$name=$(number $name)"
done
sync
umount "$mount"
dd if="$image" of=new.superblock bs=512 count=1 status=none
for name in empty text holes fragments link longlink character block fifo hints removed directory; do
    eval "record $name \$$name"
done
block fragments "$(field "$fragments" 'u3.bmbt.ptrs[1]' | sed 's,.*[ :],,')"
block longlink "$(field "$longlink" u3.bmx | sed -n 's/.*\[0,\([0-9]*\),.*/\1/p')"
field "$holes" u3.bmx

volume old -i nrext64=0 -m bigtime=0,reflink=0 -m uuid=10000000-0000-4000-8000-000000000002
touch -d '1969-12-31 23:59:58.25 UTC' "$mount/past"
past=$(number past)
sync
umount "$mount"
dd if="$image" of=old.superblock bs=512 count=1 status=none
record past "$past"
rm "$image"
rmdir "$mount"
