//! A PostgreSQL that is played: it says what a test wants, in the clear or inside TLS, whole or byte by byte.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::Authority;
use crate::patience::PATIENCE;

trait Both: Read + Write {}
impl<T: Read + Write> Both for T {}

/// One connection to it.
pub struct Peer {
    stream: Box<dyn Both>,
    is_slow: bool,
}

/// Listens until the test program ends, with a thread for each connection.
pub struct Impostor {
    pub port: u16,
}

impl Impostor {
    /// One that does this with each connection, from its first byte on.
    ///
    /// # Panics
    /// If no port is left.
    #[must_use]
    pub fn start(play: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self::over(|stream| Ok(Box::new(stream)), play)
    }

    /// The same behind a granted SSLRequest and a handshake, with the certificate `FILE.crt`.
    ///
    /// # Panics
    /// If no port is left, or the files are not what they should be.
    #[must_use]
    pub fn encrypted(
        authority: &Authority,
        file: &str,
        play: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let certificate = CertificateDer::from_pem_file(authority.path(&format!("{file}.crt"))).expect("it was signed");
        let key = PrivateKeyDer::from_pem_file(authority.path(&format!("{file}.key"))).expect("it was signed");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("both versions").with_no_client_auth().with_single_cert(vec![certificate], key);
        let config = Arc::new(config.expect("a pair"));
        let encrypt = move |mut stream: TcpStream| -> io::Result<Box<dyn Both>> {
            stream.read_exact(&mut [0; 8])?;
            stream.write_all(b"S")?;
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a sound configuration");
            Ok(Box::new(StreamOwned::new(connection, stream)))
        };
        Self::over(encrypt, play)
    }

    fn over(
        encrypt: impl Fn(TcpStream) -> io::Result<Box<dyn Both>> + Send + Sync + 'static,
        play: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is left");
        let port = listener.local_addr().expect("it is bound").port();
        let act = Arc::new(move |stream: TcpStream| -> io::Result<()> {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            play(&mut Peer { stream: encrypt(stream)?, is_slow: false })
        });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let act = Arc::clone(&act);
                // How it ends is seen by the other end alone.
                thread::spawn(move || drop(act(stream)));
            }
        });
        Self { port }
    }
}

impl Peer {
    /// From now on each byte goes alone.
    pub fn slow_down(&mut self) {
        self.is_slow = true;
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_slow {
            return self.stream.write_all(bytes);
        }
        bytes.iter().try_for_each(|byte| self.stream.write_all(&[*byte]))
    }

    /// Sends these bytes over and over, until the other end closes. Stops after a minute, so that a test in which the other end never
    /// closes fails instead of hanging.
    ///
    /// # Errors
    /// The other end is gone, which is what it should be.
    pub fn say_for_ever(&mut self, bytes: &[u8]) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            self.stream.write_all(bytes)?;
        }
        Ok(())
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn hear_bytes(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The body of the next startup packet.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn hear_startup(&mut self) -> io::Result<Vec<u8>> {
        let length = self.hear_bytes(4)?;
        let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
        self.hear_bytes((length as usize).saturating_sub(4))
    }

    /// The next message's body.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn hear(&mut self) -> io::Result<Vec<u8>> {
        self.hear_bytes(1)?;
        self.hear_startup()
    }

    /// Listens until the other end leaves.
    ///
    /// # Errors
    /// It does not.
    pub fn hear_out(&mut self) -> io::Result<()> {
        while self.stream.read(&mut [0; 4096])? > 0 {}
        Ok(())
    }
}
