//! Which process is at the other end of a connection on this machine, and its end.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tokio::process::Command;

/// The process that holds the other end of a connection, as `/proc` says.
pub(crate) fn of_connection(peer: SocketAddr) -> Option<u32> {
    let inode = inode(peer)?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|pid| holds(*pid, &socket))
}

/// Whether a process serves the function that runs steps.
pub(crate) fn is_runner(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0).filter_map(|variable| str::from_utf8(variable).ok());
    let name = variables.find_map(|variable| variable.strip_prefix("AWS_LAMBDA_FUNCTION_NAME="));
    name.is_some_and(|name| name.ends_with("-runner"))
}

/// Ends a process with SIGKILL.
pub(crate) async fn kill(pid: u32) {
    // The standard library only kills its own children.
    let killed = Command::new("sh").arg("-c").arg(format!("kill -KILL {pid}")).status().await;
    assert!(killed.expect("a shell").success(), "process {pid} was not killed");
}

/// The number of the socket whose local address this is.
fn inode(peer: SocketAddr) -> Option<u64> {
    let SocketAddr::V4(peer) = peer else { return None };
    let local = format!("{:08X}:{:04X}", u32::from_le_bytes(peer.ip().octets()), peer.port());
    // A client that asks for `localhost` may use a socket of the newer kind for the same address.
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
        let table = fs::read_to_string(table).ok()?;
        table.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let here = fields.get(1).is_some_and(|address| address.ends_with(&local));
            here.then(|| fields.get(9)?.parse().ok()).flatten()
        })
    })
}

fn holds(pid: u32, socket: &str) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new(socket)))
}
