//! A name server that says what a test wants, or nothing.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// What it says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// These addresses, good for an hour.
    Addresses(Vec<Ipv4Addr>),
    /// It cannot tell now.
    Failure,
    /// It does not answer.
    Silence,
}

#[derive(Default)]
struct Zones {
    /// A name that is not here is none.
    names: BTreeMap<String, Says>,
    serials: BTreeMap<String, u32>,
    /// How often each name was asked for.
    asked: BTreeMap<String, usize>,
}

/// Answers until the test program ends.
pub struct NameServer {
    port: u16,
    zones: Arc<Mutex<Zones>>,
}

const A: u16 = 1;
const SOA: u16 = 6;
const NO_SUCH_NAME: u8 = 3;
const SERVER_FAILURE: u8 = 2;
const HEADER_LEN: usize = 12;

impl NameServer {
    /// # Panics
    /// If no port is left.
    #[must_use]
    pub fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is left");
        let port = socket.local_addr().expect("it is bound").port();
        let zones = Arc::new(Mutex::new(Zones::default()));
        let told = Arc::clone(&zones);
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut question) {
                let answer = told.lock().expect("it does not panic").answer(&question[..len]);
                if let Some(answer) = answer {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Self { port, zones }
    }

    /// A resolv.conf that names it, and gives it a second for each answer.
    #[must_use]
    pub fn resolv_conf(&self) -> String {
        format!("nameserver 127.0.0.1:{}\noptions timeout:1 attempts:2\n", self.port)
    }

    /// # Panics
    /// If its thread has.
    pub fn tell(&self, name: &str, says: Says) {
        self.zones.lock().expect("it does not panic").names.insert(name.to_owned(), says);
    }

    /// # Panics
    /// If its thread has.
    pub fn set_serial(&self, zone: &str, serial: u32) {
        self.zones.lock().expect("it does not panic").serials.insert(zone.to_owned(), serial);
    }

    /// How often somebody has asked for the addresses of a name.
    ///
    /// # Panics
    /// If its thread has.
    #[must_use]
    pub fn asked(&self, name: &str) -> usize {
        self.zones.lock().expect("it does not panic").asked.get(name).copied().unwrap_or_default()
    }
}

impl Zones {
    //= rfc1035#section-4.1
    fn answer(&mut self, question: &[u8]) -> Option<Vec<u8>> {
        let (name, end) = name_in(question)?;
        let kind = u16::from_be_bytes([*question.get(end)?, *question.get(end + 1)?]);
        let section = question.get(HEADER_LEN..end + 4)?;
        let mut records: Vec<Vec<u8>> = Vec::new();
        let mut code = 0;
        if kind == SOA {
            match self.serials.get(&name) {
                // Names of one letter, the serial, and five times.
                Some(serial) => {
                    let names = [1, b'a', 0, 1, b'b', 0];
                    let times = [[0, 0, 0, 60]; 4].concat();
                    records.push([&names[..], &serial.to_be_bytes(), &times].concat());
                }
                None => code = NO_SUCH_NAME,
            }
        } else {
            *self.asked.entry(name.clone()).or_default() += usize::from(kind == A);
            match self.names.get(&name) {
                Some(Says::Silence) => return None,
                Some(Says::Failure) => code = SERVER_FAILURE,
                Some(Says::Addresses(addresses)) if kind == A => {
                    records.extend(addresses.iter().map(|address| address.octets().to_vec()));
                }
                // It has none of that kind.
                Some(Says::Addresses(_)) => {}
                None => code = NO_SUCH_NAME,
            }
        }
        let count = u16::try_from(records.len()).ok()?.to_be_bytes();
        // An answer, with recursion.
        let header = [question[0], question[1], 0x81, 0x80 | code, 0, 1, count[0], count[1], 0, 0, 0, 0];
        let mut answer = [&header[..], section].concat();
        for record in records {
            // The question's name, the kind, the Internet's class, an hour.
            answer.extend([0xc0, 0x0c]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0x0e, 0x10]);
            answer.extend(u16::try_from(record.len()).ok()?.to_be_bytes());
            answer.extend(record);
        }
        Some(answer)
    }
}

/// The name that is asked for, without its last dot, and where it ends.
fn name_in(question: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), HEADER_LEN);
    loop {
        let len = usize::from(*question.get(at)?);
        if len == 0 {
            return Some((labels.join("."), at + 1));
        }
        labels.push(String::from_utf8_lossy(question.get(at + 1..at + 1 + len)?).to_ascii_lowercase());
        at += 1 + len;
    }
}
