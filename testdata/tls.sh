#!/bin/sh
# Makes the certificates of the tests of https://: tls/authority.pem, which signs tls/server.pem for
# "localhost". Their keys are of no use elsewhere. Valid from 2020 to 2120.
set -eu
mkdir -p tls
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cat > "$work/ca.cnf" <<END
[ca]
default_ca = authority
[authority]
new_certs_dir = $work
database = $work/index
serial = $work/serial
default_md = sha256
policy = any
[any]
commonName = supplied
[root]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[leaf]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:localhost
extendedKeyUsage = serverAuth
END
: > "$work/index"
echo 01 > "$work/serial"
key() {
    openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1"
}
sign() {
    openssl ca -batch -config "$work/ca.cnf" -notext -startdate 20200101000000Z \
        -enddate 21200101000000Z -keyfile "$work/ca.key" "$@"
}
key "$work/ca.key"
key tls/server.key
openssl req -new -key "$work/ca.key" -subj "/CN=ferroxfs test authority" -out "$work/ca.csr"
openssl req -new -key tls/server.key -subj "/CN=localhost" -out "$work/server.csr"
sign -selfsign -extensions root -in "$work/ca.csr" -out tls/authority.pem
sign -cert tls/authority.pem -extensions leaf -in "$work/server.csr" -out tls/server.pem
