use super::{Authentication, ObjectAddress};
use crate::object::{ObjectError, ObjectOptions};

fn with(variables: &[(&str, &str)]) -> ObjectOptions {
    ObjectOptions::new().environment(variables.iter().copied())
}

/// Parses an address with these environment variables. Compares the URI of the object on its server
/// with `expected`.
#[track_caller]
fn check_uri(address: &str, variables: &[(&str, &str)], expected: &str) {
    let parsed = ObjectAddress::parse(address, &with(variables)).unwrap();
    assert_eq!(parsed.uri.to_string(), expected);
}

#[test]
fn web_addresses_are_kept() {
    check_uri("http://h:81/a/b.img", &[], "http://h:81/a/b.img");
    check_uri("https://h/a?X=1&Y=%2F", &[], "https://h/a?X=1&Y=%2F");
    check_uri("https://h/a#part", &[], "https://h/a");
    check_uri("http://h", &[], "http://h/");
    check_uri("http://h?q=a@b", &[], "http://h/?q=a@b");
}

#[test]
fn bucket_is_in_the_name_of_the_server_or_in_the_path() {
    check_uri("s3://b/k/x.img", &[], "https://b.s3.us-east-1.amazonaws.com/k/x.img");
    let region = [("AWS_REGION", "eu-west-3")];
    check_uri("s3://b/k", &region, "https://b.s3.eu-west-3.amazonaws.com/k");
    check_uri("s3://b.c/k", &region, "https://s3.eu-west-3.amazonaws.com/b.c/k");
    let region = [("AWS_DEFAULT_REGION", "cn-north-1"), ("AWS_REGION", "")];
    check_uri("s3://b/k", &region, "https://b.s3.cn-north-1.amazonaws.com.cn/k");
    let endpoint = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")];
    check_uri("s3://b/k a+b/\u{e4}", &endpoint, "http://127.0.0.1:9000/b/k%20a%2Bb/%C3%A4");
    let both = [("AWS_ENDPOINT_URL", "http://x"), ("AWS_ENDPOINT_URL_S3", "http://y")];
    check_uri("s3://b/k", &both, "http://y/b/k");
}

#[test]
fn credentials_are_used_and_not_shown() {
    let address = "https://user:p%40ss@host/a?sig=secret";
    let parsed = ObjectAddress::parse(address, &with(&[])).unwrap();
    assert_eq!(parsed.shown, "https://host/a?...");
    let Authentication::Basic(value) = &parsed.authentication else { panic!("no credentials") };
    // base64 of "user:p@ss"
    assert_eq!(value, "Basic dXNlcjpwQHNz");
    let variables = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hidden")];
    let signed = ObjectAddress::parse("s3://b/k", &with(&variables)).unwrap();
    assert!(matches!(signed.authentication, Authentication::S3(_)));
    for shown in [format!("{parsed:?}"), format!("{signed:?}"), format!("{:?}", with(&variables))] {
        let has = |word| shown.contains(word);
        assert!(!has("p@ss") && !has("p%40ss") && !has("dXNl") && !has("hidden"), "{shown}");
    }
}

#[test]
fn other_addresses_are_refused_with_the_reason() {
    for (address, reason) in [
        ("https:///a", "host"),
        ("https://u@/a", "host"),
        ("https://h/a b", "%XX"),
        ("https://%4@h/a", "two digits"),
        ("s3://bucket", "key"),
        ("s3:///key", "bucket"),
        ("s3://b@evil/key", "bucket"),
        ("gs://b/k", "https://"),
        ("ftp://h/a", "scheme"),
    ] {
        let error = ObjectAddress::parse(address, &with(&[])).unwrap_err();
        assert!(matches!(error, ObjectError::Address(text) if text.contains(reason)), "{error}");
    }
    let long = format!("https://h/{}", "a".repeat(10_000));
    assert!(ObjectAddress::parse(&long, &with(&[])).is_err());
}

#[test]
fn variables_that_cannot_be_used_are_named() {
    for (variables, named) in [
        (&[("AWS_ACCESS_KEY_ID", "x")][..], "AWS_SECRET_ACCESS_KEY"),
        (&[("AWS_SECRET_ACCESS_KEY", "x")], "AWS_ACCESS_KEY_ID"),
        (&[("AWS_ENDPOINT_URL", "127.0.0.1:9000")], "AWS_ENDPOINT_URL"),
        (&[("AWS_ENDPOINT_URL", "http://u@h")], "AWS_ENDPOINT_URL"),
        (&[("AWS_REGION", "eu/../x")], "AWS_REGION"),
    ] {
        let error = ObjectAddress::parse("s3://b/k", &with(variables)).unwrap_err();
        assert!(matches!(error, ObjectError::Environment { name, .. } if name == named), "{error}");
    }
}
