//! SeaweedFS: master, volume server, filer and S3 gateway in one process.

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{ACCESS_KEY, SECRET_KEY, serve};
use crate::process::Process;

/// How many ports it needs.
pub(super) const PORTS: usize = 8;
/// Which of them speaks S3.
pub(super) const S3_PORT: usize = 6;

/// One machine, no ports beyond ours, nothing reported to anybody, room for a volume a bucket.
const FIXED: [&str; 9] = [
    "server",
    "-ip=127.0.0.1",
    "-ip.bind=127.0.0.1",
    "-s3",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-master.telemetry=false",
    "-volume.max=1000",
    "-master.volumeSizeLimitMB=64",
];

/// Starts it over a directory.
pub(super) fn launch(directory: &Path, ports: &[u16], keep: bool) -> Result<Process> {
    let weed = env::var("WEED").context("WEED is not set: run through make, or `. .ci/env` first")?;
    let identities = directory.join("s3.json");
    fs::write(&identities, identity())?;
    let data = directory.join("data");
    fs::create_dir_all(&data)?;

    let names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc"];
    let names = names.iter().chain(&["s3.port", "s3.port.grpc"]);
    let port_flags: Vec<String> = names.zip(ports).map(|(name, port)| format!("-{name}={port}")).collect();
    let dir_flag = format!("-dir={}", data.display());
    let config_flag = format!("-s3.config={}", identities.display());
    // Its local sockets would otherwise stay behind in the shared temporary directory.
    let sockets = ["filer", "s3"].map(|part| format!("-{part}.localSocket={}", directory.join(part).display()));
    let mut command = vec![weed.as_str()];
    command.extend(FIXED);
    command.extend([dir_flag.as_str(), config_flag.as_str(), sockets[0].as_str(), sockets[1].as_str()]);
    command.extend(port_flags.iter().map(String::as_str));

    // Each bucket gets volumes of its own; one is enough for a scenario.
    serve(&command, &[("WEED_MASTER_VOLUME_GROWTH_COPY_1", "1")], directory, keep)
}

fn identity() -> String {
    format!(
        r#"{{"identities": [{{"name": "reaper",
            "credentials": [{{"accessKey": "{ACCESS_KEY}", "secretKey": "{SECRET_KEY}"}}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"]}}]}}"#
    )
}

/// Removes the sockets that it makes in /tmp whatever it is told.
pub(super) fn tidy(ports: &[u16]) {
    for (part, port) in ["master", "volume", "filer", "s3"].iter().zip(ports.iter().skip(1).step_by(2)) {
        // One that it did not get to make is no loss.
        let _ = fs::remove_file(format!("/tmp/seaweedfs-{part}-grpc-{port}.sock"));
    }
}
