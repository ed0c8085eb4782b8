//! The contents of the server: metrics at one address, the page at another.

use crate::board::Board;
use crate::metrics;
use crate::page::{self, Feed};
use crate::request::Request;
use crate::response;
use std::io::{self, Read};

/// Answer to a request.
pub(crate) enum Answer {
    /// These bytes; the connection then ends.
    Whole(Vec<u8>),
    /// A stream of events.
    Stream(Box<Feed>),
}

/// Contents at an address.
pub trait Site: Send {
    /// Answers a request whose host was checked.
    #[doc(hidden)]
    fn bytes(&self, request: &Request) -> Option<(&'static str, Vec<u8>)>;

    /// Returns the text for paths without contents: a hint where something is.
    #[doc(hidden)]
    fn elsewhere(&self) -> &'static str;

    /// Returns the stream for this request, if it asks for one.
    #[doc(hidden)]
    fn stream(&self, _request: &Request) -> Option<Box<Feed>> {
        None
    }
}

/// Answers a request.
pub(crate) fn answer(site: &dyn Site, request: &Request) -> Answer {
    if let Some(feed) = site.stream(request).filter(|_| !request.head) {
        return Answer::Stream(feed);
    }
    Answer::Whole(match site.bytes(request) {
        Some((content_type, body)) => response::whole(content_type, &body, request.head),
        None => response::not_found(site.elsewhere(), request.head),
    })
}

/// `/metrics`.
pub struct MetricsSite(Board);

impl MetricsSite {
    /// Returns the metrics of what is on the board.
    pub fn new(board: Board) -> Self {
        Self(board)
    }
}

impl Site for MetricsSite {
    fn bytes(&self, request: &Request) -> Option<(&'static str, Vec<u8>)> {
        let text = || metrics::text(&self.0.newest()).into_bytes();
        (request.path == "/metrics").then(|| (metrics::CONTENT_TYPE, text()))
    }

    fn elsewhere(&self) -> &'static str {
        "The metrics of this run are at /metrics.\n"
    }
}

/// A word in the page's address that nobody can guess, because a host is often shared.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Returns a new word.
    ///
    /// # Errors
    /// When the kernel has no random bytes.
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the path of the page.
    pub fn path(&self) -> String {
        format!("/t/{}/", self.0)
    }

    /// Returns the part after the path of the page. The check of the word takes the same time however wrong it is.
    fn file<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix("/t/")?;
        let (word, file) = rest.split_once('/')?;
        let differs = word
            .bytes()
            .zip(self.0.bytes())
            .fold(word.len() ^ self.0.len(), |differs, (a, b)| {
                differs | usize::from(a ^ b)
            });
        (differs == 0).then_some(file)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The live page, below `/t/…/`.
pub struct PageSite {
    board: Board,
    token: Token,
}

impl PageSite {
    /// Returns the page of this board.
    pub fn new(board: Board, token: Token) -> Self {
        Self { board, token }
    }
}

impl Site for PageSite {
    fn bytes(&self, request: &Request) -> Option<(&'static str, Vec<u8>)> {
        let (content_type, text) = page::file(self.token.file(&request.path)?)?;
        Some((content_type, text.as_bytes().to_vec()))
    }

    /// Returns a text without the address: its word is only for people who see the terminal of the run.
    fn elsewhere(&self) -> &'static str {
        "The live page of this run is at an address that nobody can guess, /t/WORD/. The run has printed it on \
         standard error: \"mpps: live page: http://...\".\n"
    }

    fn stream(&self, request: &Request) -> Option<Box<Feed>> {
        let events = self.token.file(&request.path)? == page::EVENTS;
        events.then(|| Box::new(Feed::new(self.board.clone(), request.last_event)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Request {
        Request {
            head: false,
            path: path.to_owned(),
            last_event: None,
        }
    }

    #[test]
    fn the_page_is_where_its_word_is_and_nowhere_else() {
        let token = Token::new().expect("random bytes");
        assert!(token != Token::new().expect("random bytes"));
        let site = PageSite::new(Board::default(), token.clone());
        let path = token.path();
        for (file, kind) in [
            ("", "text/html"),
            ("live.js", "text/javascript"),
            ("live.css", "text/css"),
            ("uplot.js", "text/javascript"),
        ] {
            let found = site.bytes(&get(&format!("{path}{file}")));
            assert!(
                found.is_some_and(|(content_type, _)| content_type.starts_with(kind)),
                "{file}"
            );
        }
        assert!(site.stream(&get(&format!("{path}events"))).is_some());
        let short = &path[..path.len() - 2];
        for wrong in [
            "/",
            "/metrics",
            "/t/",
            "/t//",
            "/t/x/",
            short,
            &format!("{short}/"),
            &format!("{path}../"),
            &path[..path.len() - 1],
        ] {
            assert!(
                site.bytes(&get(wrong)).is_none() && site.stream(&get(wrong)).is_none(),
                "{wrong}"
            );
        }
    }
}
