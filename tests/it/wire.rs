//! A network between client and server that does what networks do: it breaks, stands still and damages bytes.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What happens to a connection. The default is nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fate {
    /// Bytes from the client after which it ends.
    pub up: Option<u64>,
    /// Bytes from the server after which it ends.
    pub down: Option<u64>,
    /// It ends before the first piece, from either side, in which these bytes stand.
    pub word: Option<&'static str>,
    /// It does not break but stand still, until [`Wire::release`].
    pub stall: bool,
    /// The byte from the server that arrives with one bit flipped.
    pub flip: Option<u64>,
    /// The client's `Range` headers do not get through.
    pub no_ranges: bool,
}

/// A relay in front of a server.
pub(crate) struct Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
    ended: Receiver<()>,
}

struct Shared {
    server: SocketAddr,
    fates: Mutex<VecDeque<Fate>>,
    up: AtomicU64,
    down: AtomicU64,
    ended: Mutex<Sender<()>>,
    released: Mutex<bool>,
    release: Condvar,
}

impl Wire {
    /// Relays to `server`. The fates are met in order, each by the first connection that comes so far: how many
    /// connections a client opens, and which of them it uses, is its own business.
    pub(crate) fn start(server: SocketAddr, fates: impl IntoIterator<Item = Fate>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, ended) = channel();
        let shared = Arc::new(Shared {
            server,
            fates: Mutex::new(fates.into_iter().collect()),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            ended: Mutex::new(sender),
            released: Mutex::new(false),
            release: Condvar::new(),
        });
        let relay = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let relay = Arc::clone(&relay);
                thread::spawn(move || relay.connection(client));
            }
        });
        Self { address, shared, ended }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Bytes that went to the server.
    pub(crate) fn up(&self) -> u64 {
        self.shared.up.load(Ordering::Relaxed)
    }

    /// Bytes that went to the client.
    pub(crate) fn down(&self) -> u64 {
        self.shared.down.load(Ordering::Relaxed)
    }

    /// Waits until a connection has met its fate.
    pub(crate) fn wait(&self) {
        self.ended.recv().unwrap();
    }

    /// True when every fate has met its connection.
    pub(crate) fn is_through(&self) -> bool {
        self.shared.fates.lock().unwrap().is_empty()
    }

    /// Breaks the connections that stand still.
    pub(crate) fn release(&self) {
        *self.shared.released.lock().unwrap() = true;
        self.shared.release.notify_all();
    }
}

impl Shared {
    fn connection(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(self.server) else { return };
        let (from, to, shared) = (server.try_clone().unwrap(), client.try_clone().unwrap(), Arc::clone(self));
        let down = thread::spawn(move || shared.pump(from, &to, false));
        self.pump(client, &server, true);
        down.join().unwrap();
    }

    fn pump(&self, mut from: TcpStream, mut to: &TcpStream, up: bool) {
        let mut buffer = vec![0; 16 << 10];
        let mut passed = 0;
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let mut piece = &mut buffer[..read];
            let (end, stall) = self.meet(&mut piece, passed, up);
            if to.write_all(piece).is_err() {
                break;
            }
            passed += piece.len() as u64;
            if up { &self.up } else { &self.down }.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if end {
                self.ended.lock().unwrap().send(()).ok();
                let mut released = self.released.lock().unwrap();
                while stall && !*released {
                    released = self.release.wait(released).unwrap();
                }
                break;
            }
        }
        // Both directions end together, as they do when a cable is pulled.
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    }

    /// Lets the next fate befall a piece, if it is its turn. Whether the connection ends with it, and stands still.
    fn meet(&self, piece: &mut &mut [u8], passed: u64, up: bool) -> (bool, bool) {
        let mut fates = self.fates.lock().unwrap();
        let Some(fate) = fates.front().copied() else { return (false, false) };
        if fate.word.is_some_and(|word| find(piece, word.as_bytes()).is_some()) {
            *piece = &mut [];
            fates.pop_front();
            return (true, fate.stall);
        }
        let room = |limit: u64| usize::try_from(limit.saturating_sub(passed)).unwrap();
        let limit = if up { fate.up } else { fate.down };
        if let Some(room) = limit.map(room).filter(|room| *room <= piece.len()) {
            *piece = &mut std::mem::take(piece)[..room];
            fates.pop_front();
            return (true, fate.stall);
        }
        if let Some(at) = fate.flip.filter(|flip| !up && *flip >= passed).map(room).filter(|at| *at < piece.len()) {
            piece[at] ^= 1;
            fates.pop_front();
        } else if fate.no_ranges && up && hide(piece, b"\r\nrange:") {
            fates.pop_front();
        }
        (false, false)
    }
}

/// Renames a header where it stands; false when it is not there.
fn hide(piece: &mut [u8], name: &[u8]) -> bool {
    let at = find(piece, name);
    if let Some(at) = at {
        piece[at + 2] = b'x';
    }
    at.is_some()
}

fn find(piece: &[u8], name: &[u8]) -> Option<usize> {
    piece.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name))
}
