//! A network between client and server that does what networks do: it breaks, stands still and damages bytes.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What happens to one connection. The default is nothing.
#[derive(Clone, Copy, Default)]
pub struct Fate {
    /// Bytes from the client after which it ends.
    pub up: Option<u64>,
    /// Bytes from the server after which it ends.
    pub down: Option<u64>,
    /// It does not break but stand still, until [`Wire::release`].
    pub stall: bool,
    /// The byte from the server that arrives with one bit flipped.
    pub flip: Option<u64>,
    /// The client's `Range` headers do not get through.
    pub no_ranges: bool,
}

/// A relay in front of a server.
pub struct Wire {
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
    /// Relays to `server`; the first connections meet their fates in order, all later ones nothing.
    pub fn start(server: SocketAddr, fates: impl IntoIterator<Item = Fate>) -> Self {
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
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Bytes that went to the server.
    pub fn up(&self) -> u64 {
        self.shared.up.load(Ordering::Relaxed)
    }

    /// Bytes that went to the client.
    pub fn down(&self) -> u64 {
        self.shared.down.load(Ordering::Relaxed)
    }

    /// Waits until a connection has met its fate.
    pub fn wait(&self) {
        self.ended.recv().unwrap();
    }

    /// Breaks the connections that stand still.
    pub fn release(&self) {
        *self.shared.released.lock().unwrap() = true;
        self.shared.release.notify_all();
    }
}

impl Shared {
    fn connection(self: &Arc<Self>, client: TcpStream) {
        let fate = self.fates.lock().unwrap().pop_front().unwrap_or_default();
        let Ok(server) = TcpStream::connect(self.server) else { return };
        let (from, to, shared) = (server.try_clone().unwrap(), client.try_clone().unwrap(), Arc::clone(self));
        let down = thread::spawn(move || shared.pump(from, &to, fate.down, fate, &shared.down, false));
        self.pump(client, &server, fate.up, fate, &self.up, true);
        down.join().unwrap();
    }

    fn pump(
        &self,
        mut from: TcpStream,
        mut to: &TcpStream,
        limit: Option<u64>,
        fate: Fate,
        total: &AtomicU64,
        up: bool,
    ) {
        let mut buffer = vec![0; 16 << 10];
        let mut passed = 0;
        loop {
            let most = limit.map_or(buffer.len(), |limit| buffer.len().min((limit - passed) as usize));
            if most == 0 {
                self.ended.lock().unwrap().send(()).ok();
                if fate.stall {
                    let mut released = self.released.lock().unwrap();
                    while !*released {
                        released = self.release.wait(released).unwrap();
                    }
                }
                break;
            }
            let Ok(read @ 1..) = from.read(&mut buffer[..most]) else { break };
            let piece = &mut buffer[..read];
            if let Some(flip) = fate.flip.filter(|flip| !up && (passed..passed + read as u64).contains(flip)) {
                piece[(flip - passed) as usize] ^= 1;
            }
            if fate.no_ranges && up {
                hide(piece, b"\r\nrange:");
            }
            if to.write_all(piece).is_err() {
                break;
            }
            passed += read as u64;
            total.fetch_add(read as u64, Ordering::Relaxed);
        }
        // Both directions end together, as they do when a cable is pulled.
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    }
}

/// Renames a header where it stands.
fn hide(piece: &mut [u8], name: &[u8]) {
    if let Some(at) = piece.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name)) {
        piece[at + 2] = b'x';
    }
}
