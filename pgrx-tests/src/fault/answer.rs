//! Scripted answers, down to the byte.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use super::Request;

/// One scripted answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status line's code.
    pub status: u16,
    /// More head lines.
    pub headers: Vec<String>,
    /// The body.
    pub body: String,
    /// How long to wait before it.
    pub delay: Duration,
    /// What is wrong with the way it is sent.
    pub flaw: Flaw,
    /// Whether the keys are deleted, whatever it says.
    pub does_it: bool,
}

/// What can be wrong with the way an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// The connection is closed instead.
    HangUp,
    /// The connection is reset instead.
    Reset,
    /// Nothing ever comes.
    Silence,
    /// So many bytes are missing when the connection is closed.
    Short(usize),
    /// From the first byte of the head on, a byte a second.
    SlowHead,
    /// From the first byte of the body on, a byte a second.
    SlowBody,
    /// The body goes on for ever.
    Endless,
    /// So many more lines in the head.
    Headers(usize),
}

impl Answer {
    /// An answer at once.
    pub fn of(status: u16, body: impl Into<String>) -> Answer {
        let (headers, delay) = (Vec::new(), Duration::ZERO);
        Answer { status, headers, body: body.into(), delay, flaw: Flaw::None, does_it: false }
    }

    /// An S3 error document.
    pub fn error(status: u16, code: &str) -> Answer {
        Answer::of(
            status,
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>scripted</Message></Error>"),
        )
    }

    /// A DeleteResult with this content.
    pub fn result(content: &str) -> Answer {
        let open = "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
        Answer::of(200, format!("{open}{content}</DeleteResult>"))
    }

    /// A good answer that is sent badly.
    pub fn broken(flaw: Flaw) -> Answer {
        Answer { flaw, ..Answer::result("") }
    }

    /// The connection is closed instead.
    pub fn hang_up() -> Answer {
        Answer::broken(Flaw::HangUp)
    }

    /// The same answer, later.
    pub fn after(self, delay: Duration) -> Answer {
        Answer { delay, ..self }
    }

    /// With one more line in its head.
    pub fn with(mut self, header: &str) -> Answer {
        self.headers.push(header.to_owned());
        self
    }

    /// And the keys are gone.
    pub fn done(self) -> Answer {
        Answer { does_it: true, ..self }
    }

    /// What a healthy server says: every key is deleted.
    pub fn healthy(request: &Request) -> Answer {
        if request.method != "POST" {
            return Answer::of(if request.method == "DELETE" { 204 } else { 404 }, "").done();
        }
        let deleted: String = request.keys().iter().map(|key| format!("<Deleted><Key>{key}</Key></Deleted>")).collect();
        Answer::result(&deleted).done()
    }

    /// Sends it, to a HEAD without its body; an error ends the connection. `ended` says when nobody wants it any more.
    pub(super) fn send(&self, socket: &mut TcpStream, is_head: bool, ended: &dyn Fn() -> bool) -> std::io::Result<()> {
        let Answer { status, headers, body, flaw, .. } = self;
        let missing = if let Flaw::Short(bytes) = flaw { *bytes } else { 0 };
        let length = match (status, flaw) {
            // An answer without a body has no length either.
            (304, _) => String::new(),
            (_, Flaw::Endless) => "Content-Length: 2147483648\r\n".to_owned(),
            _ => format!("Content-Length: {}\r\n", body.len() + missing),
        };
        let body = if is_head { "" } else { body };
        let more: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let filler = if let Flaw::Headers(lines) = flaw { "x-filler: x\r\n".repeat(*lines) } else { String::new() };
        let head = format!("HTTP/1.1 {status} Scripted\r\n{length}{more}{filler}\r\n");
        let closed = || Err(std::io::Error::other("the script ends the connection"));
        match flaw {
            Flaw::HangUp => closed(),
            Flaw::Reset => reset(socket).and_then(|()| closed()),
            Flaw::Silence => {
                while !ended() {
                    thread::park_timeout(Duration::from_millis(50));
                }
                closed()
            }
            Flaw::SlowHead => drip(socket, &format!("{head}{body}"), ended),
            Flaw::SlowBody => {
                socket.write_all(head.as_bytes())?;
                drip(socket, body, ended)
            }
            Flaw::Endless => {
                socket.write_all(head.as_bytes())?;
                let filler = vec![b'x'; 1 << 16];
                while !ended() {
                    socket.write_all(&filler)?;
                }
                closed()
            }
            Flaw::Short(_) => socket.write_all(format!("{head}{body}").as_bytes()).and_then(|()| closed()),
            Flaw::None | Flaw::Headers(_) => socket.write_all(format!("{head}{body}").as_bytes()),
        }
    }
}

fn drip(socket: &mut TcpStream, text: &str, ended: &dyn Fn() -> bool) -> std::io::Result<()> {
    for byte in text.bytes() {
        if ended() {
            break;
        }
        socket.write_all(&[byte])?;
        thread::park_timeout(Duration::from_secs(1));
    }
    Ok(())
}

/// Closing it then sends a reset.
fn reset(socket: &TcpStream) -> std::io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let length = libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap_or_default();
    // SAFETY: the descriptor is open as long as the socket is borrowed, and the option is read while it is alive.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), length)
    };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
