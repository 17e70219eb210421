use std::fs::File;
use std::io::Write;
use std::time::Duration;

use xfs_device::SourceError;
use xfs_testkit::{Folders, StoreAnswer, StoreServer, WebRequest};

use super::{ObjectFolder, hash_of};
use crate::object::{ObjectError, ObjectOptions, RequestFailure};

const NAME: &str = "inodes/scan_date=2026-11-30/part.parquet";

fn file(contents: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(contents).unwrap();
    file
}

fn serve(answer: impl Fn(&WebRequest) -> StoreAnswer + Send + Sync + 'static) -> StoreServer {
    StoreServer::start(Folders::Implied, answer).unwrap()
}

/// Returns options that do not depend on the environment of the test.
fn options(variables: &[(&str, &str)]) -> ObjectOptions {
    ObjectOptions::new()
        .environment(variables.iter().copied())
        .timeout(Duration::from_secs(10))
        .attempts(3)
}

/// Stores a file in a bucket of the server.
fn store_in_bucket(server: &StoreServer, contents: &[u8]) -> Result<String, ObjectError> {
    let endpoint = format!("http://{}", server.address());
    let options = options(&[
        ("AWS_ENDPOINT_URL", &endpoint),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ]);
    ObjectFolder::new("s3://bucket/data", &options).unwrap().store(NAME, &file(contents))
}

#[test]
fn file_is_stored_in_a_bucket_with_a_signature() {
    let server = serve(|_| StoreAnswer::Obey);
    let contents = vec![7; (3 << 20) + 5];
    let path = "/bucket/data/inodes/scan_date%3D2026-11-30/part.parquet";
    let address = store_in_bucket(&server, &contents).unwrap();
    assert_eq!(address, format!("http://{}{path}", server.address()));
    assert!(server.objects().remove(path).unwrap() == contents);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let signed = requests[0].header("authorization").unwrap();
    assert!(signed.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date,"), "{signed}");
    let hash = hash_of(&file(&contents)).unwrap();
    assert_eq!(requests[0].header("x-amz-content-sha256"), Some(hash.as_str()));
}

#[test]
fn attempt_that_fails_for_now_is_repeated() {
    for first in [StoreAnswer::Refuse(503), StoreAnswer::HangUp] {
        let server =
            serve(move |request| if request.index == 0 { first } else { StoreAnswer::Obey });
        let contents = vec![1; 2 << 20];
        store_in_bucket(&server, &contents).unwrap();
        assert_eq!(server.requests().len(), 2, "{first:?}");
        assert!(server.objects().into_values().next().unwrap() == contents, "{first:?}");
    }
}

#[test]
fn refusal_is_reported_once_with_a_hint() {
    let server = serve(|_| StoreAnswer::Refuse(403));
    let error = store_in_bucket(&server, b"x").unwrap_err();
    assert_eq!(server.requests().len(), 1);
    assert!(error.hint().unwrap().contains("AWS_SECRET_ACCESS_KEY"), "{error}");
    let ObjectError::Upload { method, failure, attempts, .. } = error else { panic!("{error}") };
    assert_eq!((method, attempts), ("PUT", 1));
    assert!(matches!(failure, RequestFailure::Status { code: 403, .. }));
}

#[test]
fn folders_of_a_webdav_server_are_made() {
    let server = StoreServer::start(Folders::Made, |_| StoreAnswer::Obey).unwrap();
    let address = format!("http://user:word@{}/data/", server.address());
    let folder = ObjectFolder::new(&address, &options(&[])).unwrap();
    for contents in [b"one", b"two"] {
        folder.store(NAME, &file(contents)).unwrap();
        assert_eq!(server.objects()[&format!("/data/{NAME}")], contents);
    }
    let methods: Vec<_> = server.requests().into_iter().map(|it| it.method).collect();
    assert_eq!(methods, ["PUT", "MKCOL", "MKCOL", "MKCOL", "PUT", "PUT"]);
    assert!(server.requests().iter().all(|it| it.header("authorization").is_some()));
}

#[test]
fn query_of_a_folder_is_that_of_each_object_and_is_not_shown() {
    let server = serve(|request| match request.target.ends_with("?sig=hidden") {
        true => StoreAnswer::Obey,
        false => StoreAnswer::Refuse(404),
    });
    let address = format!("http://{}/container?sig=hidden", server.address());
    let folder = ObjectFolder::new(&address, &options(&[])).unwrap();
    let shown = folder.store(NAME, &file(b"x")).unwrap();
    assert!(!shown.contains("hidden") && shown.contains(NAME), "{shown}");
    assert!(!format!("{folder:?}").contains("hidden"));
    assert!(server.objects().contains_key(&format!("/container/{NAME}?sig=hidden")));
}

#[test]
fn address_that_is_no_folder_is_refused() {
    for address in ["gs://bucket/data", "s3://", "http://", "ftp://host/data"] {
        let error = ObjectFolder::new(address, &options(&[])).unwrap_err();
        assert!(matches!(error, ObjectError::Address(_)), "{address}: {error}");
    }
}
