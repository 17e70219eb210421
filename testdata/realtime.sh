#!/bin/sh
# Makes three small volumes with a realtime section; packed, they are the images in
# testdata/realtime. Run it in a guest with the newest kernel (xfs_oracle::guest) whose drives are
# empty images:
#
#   vda  classic, 32 MiB    vdb  its realtime device, 8 MiB
#   vdc  groups, 48 MiB     vdd  its realtime device, 16 MiB
#   vde  zoned, 48 MiB, with an internal section
#
# The images are then packed by `cargo run -p xfs-testkit --example pack`.
set -eu

fill() {
    cd /mnt
    mkdir rt plain
    xfs_io -c 'chattr +t' rt
    xfs_io -c 'chattr -t' plain
    xfs_io -f -c 'pwrite -q -S 0x61 0 40k' rt/text
    xfs_io -f -c 'pwrite -q -S 0x62 100k 1k' -c 'truncate 1m' rt/sparse
    xfs_io -f -c 'falloc 0 64k' -c 'pwrite -q -S 0x63 16k 4k' rt/unwritten || true
    xfs_io -f -c 'reflink rt/text' -c 'pwrite -q -S 0x64 8k 8k' rt/shared || true
    set --
    for piece in $(seq 0 39); do set -- "$@" -c "pwrite -q -S 0x65 $((piece * 64))k 4k"; done
    xfs_io -f "$@" -c fsync rt/fragments
    xfs_io -f -c 'pwrite -q -S 0x66 0 12k' plain/data
    cd /
    umount /mnt
}

uuid() { echo "uuid=f0000000-0000-4000-8000-0000000000$1"; }
options="-q -f --unsupported -d agcount=2"

mkfs.xfs $options -m metadir=0,"$(uuid c1)" -r rtdev=/dev/vdb,extsize=16k /dev/vda
mount -o rtdev=/dev/vdb /dev/vda /mnt
fill
xfs_repair -L -r /dev/vdb /dev/vda > /dev/null 2>&1

mkfs.xfs $options -m metadir=1,rmapbt=1,reflink=1,"$(uuid c2)" -r rtdev=/dev/vdd,rgsize=4m /dev/vdc
mount -o rtdev=/dev/vdd /dev/vdc /mnt
fill
xfs_repair -L -r /dev/vdd /dev/vdc > /dev/null 2>&1

mkfs.xfs $options,size=32m -m "$(uuid c3)" -r zoned=1,rgsize=1m /dev/vde
mount /dev/vde /mnt
fill
xfs_repair -L /dev/vde > /dev/null 2>&1
