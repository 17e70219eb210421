use jiff::Timestamp;

use super::{EMPTY_HASH, S3Credentials, Signable, escape_key};
use crate::object::ObjectOptions;

fn credentials(secret: &str, token: &str, region: &str) -> S3Credentials {
    let id = if token.is_empty() { "AKIAIOSFODNN7EXAMPLE" } else { "AKIDEXAMPLE" };
    let variables = [
        ("AWS_ACCESS_KEY_ID", id),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_SESSION_TOKEN", token),
    ];
    S3Credentials::of(&ObjectOptions::new().environment(variables), region).unwrap().unwrap()
}

fn authorization(credentials: &S3Credentials, request: &Signable<'_>) -> String {
    let headers = credentials.sign(request);
    headers.into_iter().find(|(name, _)| *name == "authorization").unwrap().1
}

/// Checks the signature of the example "GET object" in the documentation of AWS Signature Version 4
/// for S3.
#[test]
fn signature_of_the_example_of_aws_is_made() {
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    let request = Signable {
        method: "GET",
        body_hash: EMPTY_HASH,
        host: "examplebucket.s3.amazonaws.com",
        path: "/test.txt",
        range: Some("bytes=0-9"),
        time: "2013-05-24T00:00:00Z".parse::<Timestamp>().unwrap(),
    };
    assert_eq!(
        authorization(&credentials(secret, "", "us-east-1"), &request),
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
         Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );
}

/// Checks that the signatures equal those that botocore 1.43 (`S3SigV4Auth`) made of the same
/// requests.
#[test]
fn signatures_of_botocore_are_made() {
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    let time = "2026-11-29T08:05:03Z".parse::<Timestamp>().unwrap();
    let path = format!("/b/{}", escape_key("k a+b/\u{e4}"));
    let host = "127.0.0.1:9000";
    let local = Signable {
        method: "GET",
        host,
        path: &path,
        range: Some("bytes=65536-131071"),
        body_hash: EMPTY_HASH,
        time,
    };
    let mut user = credentials(secret, "", "eu-west-3");
    "AKIDEXAMPLE".clone_into(&mut user.access_key);
    let signed = authorization(&user, &local);
    let expected = "b3901daf319f4e679fcdad4352b62748c1278003794aa9d31963d567fe8e16fd";
    assert!(signed.ends_with(expected), "{signed}");
    let host = "b.s3.us-east-1.amazonaws.com";
    let range = Some("bytes=0-65535");
    let with_token = Signable { host, path: "/disk.img", range, ..local };
    let user = credentials(secret, "TOKEN/abc+123=", "us-east-1");
    let signed = authorization(&user, &with_token);
    let expected = "f1f2c0dade62b25d48a1a0c54b10ae8c955d484df9f59d0f2ba5fe792b7d03b6";
    assert!(signed.ends_with(expected), "{signed}");
    let headers = user.sign(&with_token);
    assert!(headers.contains(&("x-amz-security-token", "TOKEN/abc+123=".to_owned())));
    assert!(headers.contains(&("x-amz-date", "20261129T080503Z".to_owned())));
}

/// Checks that the signature of a PUT equals that of botocore 1.44 (`S3SigV4Auth`).
#[test]
fn signature_of_a_put_is_made() {
    let path = "/b/data/inodes/scan_date=2026-11-30/volume_uuid=0123/part-00000.parquet";
    let request = Signable {
        method: "PUT",
        host: "127.0.0.1:9000",
        path: &escape_key(path),
        range: None,
        // The body is "contents".
        body_hash: "d1b2a59fbea7e20077af9f91b27e95e865061b270be03ff539ab3b73587882e8",
        time: "2026-11-29T08:05:03Z".parse::<Timestamp>().unwrap(),
    };
    let mut user = credentials("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "", "eu-west-3");
    "AKIDEXAMPLE".clone_into(&mut user.access_key);
    let signed = authorization(&user, &request);
    let expected = "5670ac3f327003195feb5fa23049dbbcce9c0d12837a4035370628d28662e540";
    assert!(signed.ends_with(expected), "{signed}");
}
