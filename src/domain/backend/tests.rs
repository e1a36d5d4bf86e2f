use super::*;

fn endpoint(text: &str) -> Endpoint {
    Endpoint::parse(text).expect("a valid endpoint")
}

#[test]
fn a_dotted_bucket_never_breaks_tls() {
    let aws = endpoint("https://s3.eu-west-1.amazonaws.com");
    let choose = |bucket| Addressing::choose(Kind::Aws, &aws, bucket);
    assert_eq!(choose("my.dotted.bucket"), Addressing::Path);
    assert_eq!(choose("media"), Addressing::Virtual);
    assert_eq!(Addressing::Virtual.check(&aws, "my.dotted.bucket"), Err(AddressingError::DottedBucket));
    let plain = endpoint("http://s3.example.test");
    assert_eq!(Addressing::Virtual.check(&plain, "a.b.c"), Ok(()));
}

#[test]
fn an_ip_address_has_no_virtual_hosts() {
    for text in ["http://127.0.0.1:9000", "http://[::1]:9000"] {
        let ip = endpoint(text);
        assert_eq!(Addressing::choose(Kind::Aws, &ip, "media"), Addressing::Path);
        assert_eq!(Addressing::Virtual.check(&ip, "media"), Err(AddressingError::IpAddress));
    }
}

#[test]
fn other_stores_are_addressed_by_path() {
    let minio = endpoint("https://minio.example.test");
    for kind in [Kind::Minio, Kind::R2, Kind::Gcs, Kind::Generic] {
        assert_eq!(Addressing::choose(kind, &minio, "media"), Addressing::Path);
    }
}
