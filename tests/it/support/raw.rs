//! A rude client: whatever bytes a test wants on a socket.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wait::soon;

pub struct Raw(pub TcpStream);

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct RawAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body has the length that the head told.
    pub whole: bool,
}

impl Raw {
    pub async fn connect(address: &str) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Sends bytes; a server that has stopped listening is no error here.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        soon("sending", self.0.write_all(bytes.as_ref())).await.is_ok()
    }

    /// Reads one answer; `None` when the connection ends without one.
    pub async fn answer(&mut self) -> Option<RawAnswer> {
        soon("the answer", self.read_answer(Vec::new())).await
    }

    async fn read_answer(&mut self, mut bytes: Vec<u8>) -> Option<RawAnswer> {
        let head = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if self.0.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                assert!(bytes.is_empty(), "half a head: {:?}", String::from_utf8_lossy(&bytes));
                return None;
            }
        };
        let text = std::str::from_utf8(&bytes[..head]).unwrap();
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let pair = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: Vec<_> = lines.map(pair).collect();
        let mut answer = RawAnswer { status, headers, body: bytes.split_off(head + 4), whole: false };
        let told = answer.header("content-length").map(|text| text.parse::<usize>().unwrap());
        while told.is_none_or(|told| answer.body.len() < told) {
            if self.0.read_buf(&mut answer.body).await.unwrap_or(0) == 0 {
                break;
            }
        }
        answer.whole = told.is_none_or(|told| answer.body.len() == told);
        Some(answer)
    }

    /// Reads the rest of an answer of which the head, and perhaps more, was read before.
    pub async fn continued(&mut self, bytes: Vec<u8>) -> RawAnswer {
        soon("the answer", self.read_answer(bytes)).await.unwrap()
    }

    /// True when the server has closed the connection.
    pub async fn closed(&mut self) -> bool {
        let mut rest = Vec::new();
        let read = soon("the end of the connection", self.0.read_to_end(&mut rest)).await;
        read.is_err() || rest.is_empty()
    }
}

impl RawAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(told, _)| told == name).map(|(_, value)| value.as_str())
    }

    /// The problem document, after checking its form.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> serde_json::Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{text}");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{problem}");
        problem
    }
}
