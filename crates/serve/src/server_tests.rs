use super::*;
use crate::board::Board;
use crate::site::{MetricsSite, PageSite, Token};
use crate::state::State as Known;
use std::net::SocketAddr;

/// Times short enough for tests, and with which no test passes by being quick.
const SHORT: Limits = Limits {
    connections: 4,
    streams: 2,
    request: Duration::from_millis(400),
    write: Duration::from_millis(400),
    answer: Duration::from_secs(5),
};
const PATIENCE: Duration = Duration::from_secs(60);

struct Served {
    server: Server,
    board: Board,
    at: SocketAddr,
    page: String,
}

fn serve(limits: Limits) -> Served {
    let board = Board::default();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("its address");
    let token = Token::new().expect("random bytes");
    let page = token.path();
    struct Both(MetricsSite, PageSite);
    impl Site for Both {
        fn bytes(&self, request: &crate::request::Request) -> Option<(&'static str, Vec<u8>)> {
            self.0.bytes(request).or_else(|| self.1.bytes(request))
        }
        fn stream(&self, request: &crate::request::Request) -> Option<Box<Feed>> {
            self.1.stream(request)
        }
        fn elsewhere(&self) -> &'static str {
            self.1.elsewhere()
        }
    }
    let site = Both(MetricsSite::new(board.clone()), PageSite::new(board.clone(), token));
    let listener = Listener::new(socket, site, Vec::new()).expect("a listener");
    let server = Server::start(vec![listener], limits, || true).expect("a thread");
    Served {
        server,
        board,
        at,
        page,
    }
}

fn connect(at: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(at).expect("connected");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    socket
}

fn rest(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that was reset has sent nothing more.
    let _ = socket.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn ask(at: SocketAddr, request: &str) -> String {
    let mut socket = connect(at);
    socket.write_all(request.as_bytes()).expect("sent");
    rest(socket)
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn requests_are_answered_or_refused_and_the_answer_is_whole() {
    let served = serve(LIMITS);
    let answer = ask(served.at, GET);
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{answer}"
    );
    assert!(answer.contains("\r\n\r\n# HELP mpps_run_info"), "{answer}");
    let head = ask(served.at, &GET.replace("GET", "HEAD"));
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        (GET.replace("localhost", "example.com"), "403"),
        (GET.replace("GET", "POST"), "405"),
        (GET.replace("/metrics", "/"), "404"),
        (GET.replace("/metrics", "/t/0/"), "404"),
        (GET.replace("Host: localhost\r\n", ""), "400"),
        ("\u{16}\u{3}\u{1}\n\n".to_owned(), "400"),
        (
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(9000)),
            "431",
        ),
        (format!("{}{}", GET.replace("GET", "POST"), "x".repeat(20_000)), "405"),
    ] {
        let answer = ask(served.at, &request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:.80}: {answer}"
        );
    }
    // The address without its path says where the page is, and not its word.
    let top = ask(served.at, &GET.replace("/metrics", "/"));
    assert!(
        top.contains("/t/WORD/") && top.contains("mpps: live page: http"),
        "{top}"
    );
    assert!(!top.contains(served.page.trim_matches('/')), "{top}");
    served.server.finish();
}

#[test]
fn a_client_that_says_nothing_or_too_little_is_let_go_and_others_are_served_meanwhile() {
    let served = serve(SHORT);
    let silent = connect(served.at);
    let mut slow = connect(served.at);
    slow.write_all(b"GET / HT").expect("sent");
    assert!(ask(served.at, GET).starts_with("HTTP/1.1 200"));
    for (socket, who) in [(silent, "silent"), (slow, "slow")] {
        assert!(rest(socket).starts_with("HTTP/1.1 408"), "{who}");
    }
    served.server.finish();
}

#[test]
fn who_says_nothing_gives_its_place_to_who_asks() {
    let patient = Limits {
        request: 2 * PATIENCE,
        ..SHORT
    };
    let served = serve(patient);
    let silent: Vec<_> = (0..SHORT.connections).map(|_| connect(served.at)).collect();
    assert!(ask(served.at, GET).starts_with("HTTP/1.1 200"));
    let told: Vec<_> = silent.into_iter().take(1).map(rest).collect();
    assert!(told[0].starts_with("HTTP/1.1 503"), "the first of them: {told:?}");
    served.server.finish();
}

#[test]
fn who_was_answered_and_stays_gives_its_place_to_who_asks() {
    let served = serve(SHORT);
    // The server has said all, and waits a moment for the client's end.
    let answered = || {
        let mut socket = connect(served.at);
        socket.write_all(GET.as_bytes()).expect("sent");
        let mut told = String::new();
        socket.read_to_string(&mut told).expect("text");
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
        socket
    };
    let crowd: Vec<_> = (0..3 * SHORT.connections).map(|_| answered()).collect();
    drop(crowd);
    served.server.finish();
}

#[test]
fn a_crowd_is_turned_away_and_then_there_is_room_again() {
    let served = serve(SHORT);
    let crowd: Vec<_> = (0..20).map(|_| connect(served.at)).collect();
    let told: Vec<String> = crowd.into_iter().map(rest).collect();
    assert!(told.iter().any(|told| told.starts_with("HTTP/1.1 503")), "{told:?}");
    let deadline = Instant::now() + PATIENCE;
    while !ask(served.at, GET).starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < deadline, "no room again");
    }
    served.server.finish();
}

#[test]
fn a_stream_that_nobody_reads_is_let_go_and_holds_up_nobody() {
    let served = serve(SHORT);
    let mut lazy = connect(served.at);
    lazy.write_all(format!("GET {}events HTTP/1.1\r\nHost: localhost\r\n\r\n", served.page).as_bytes())
        .expect("sent");
    // More than sockets hold.
    let state = Known {
        notes: vec!["x".repeat(1 << 20).into(); 12],
        ..Known::default()
    };
    served.board.publish(&state);
    let closed = || {
        served.board.publish(&state);
        assert!(ask(served.at, GET).starts_with("HTTP/1.1 200"), "others are served");
        // The connection was closed with bytes under way.
        lazy.take_error().is_ok_and(|error| error.is_some()) || {
            lazy.set_nonblocking(true).expect("set");
            let gone = lazy.write(b"x").is_err();
            lazy.set_nonblocking(false).expect("set");
            gone
        }
    };
    let deadline = Instant::now() + PATIENCE;
    let mut closed = closed;
    while !closed() {
        assert!(Instant::now() < deadline, "it is still there");
    }
    served.server.finish();
}

/// A stream that has begun; nobody reads more of it.
fn stream(served: &Served) -> TcpStream {
    let mut socket = connect(served.at);
    let request = format!("GET {}events HTTP/1.1\r\nHost: localhost\r\n\r\n", served.page);
    socket.write_all(request.as_bytes()).expect("sent");
    let mut first = [0; 15];
    socket.read_exact(&mut first).expect("its head");
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    socket
}

/// Whether a stream goes on, after all that it was given so far.
fn goes_on(socket: &mut TcpStream) -> bool {
    let on = |result: io::Result<usize>| match result {
        Ok(0) => Some(false),
        Ok(_) => None,
        Err(e) => Some(e.kind() == ErrorKind::WouldBlock),
    };
    socket.set_nonblocking(true).expect("set");
    let mut bytes = [0; 4096];
    loop {
        if let Some(on) = on(socket.read(&mut bytes)) {
            socket.set_nonblocking(false).expect("set");
            return on;
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn mute_streams_shut_nobody_out_and_the_oldest_gives_way_to_a_new_one() {
    for limits in [SHORT, LIMITS] {
        let served = serve(limits);
        let mut mute: Vec<_> = (0..limits.connections).map(|_| stream(&served)).collect();
        assert!(ask(served.at, GET).starts_with("HTTP/1.1 200"), "a plain request");
        let page = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", served.page);
        assert!(ask(served.at, &page).starts_with("HTTP/1.1 200"), "the page");
        // The connections that came last stay, and a new one is among them.
        let mut newest = stream(&served);
        let ended = limits.connections - limits.streams + 1;
        until("the oldest end", || {
            mute[..ended].iter_mut().all(|socket| !goes_on(socket))
        });
        assert!(mute[ended..].iter_mut().all(goes_on) && goes_on(&mut newest));
        served.server.finish();
    }
}

#[test]
fn of_streams_the_one_gives_way_that_has_taken_nothing_for_longest_or_else_the_oldest() {
    let now = Instant::now();
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("its address");
    let of = |listener, ago_s| Connection {
        socket: connect(at),
        listener,
        state: State::Streaming(Box::new(Feed::new(Board::default(), None))),
        out: Vec::new(),
        at: 0,
        deadline: now,
        last: None,
        taken: now.checked_sub(Duration::from_secs(ago_s)).unwrap_or(now),
    };
    // Listener and seconds of each, and which gives way to the last.
    for (all, gives_way) in [
        (&[(0, 0), (0, 0)][..], None),
        (&[(0, 9), (1, 8), (0, 0)], None),
        (&[(0, 0), (0, 0), (0, 0)], Some(0)),
        (&[(0, 1), (0, 2), (0, 0)], Some(1)),
        (&[(1, 9), (0, 1), (0, 1), (0, 3)], Some(1)),
    ] {
        let mut serving = Serving {
            listeners: Vec::new(),
            limits: SHORT,
            connections: all.iter().map(|&(listener, ago_s)| of(listener, ago_s)).collect(),
            woken: UnixStream::pair().expect("a pair").0,
            full_until: None,
            last: None,
        };
        serving.limit_streams(all.len() - 1);
        let over = serving
            .connections
            .iter()
            .position(|of| matches!(of.state, State::Over));
        assert_eq!(over, gives_way, "{all:?}");
    }
}

#[test]
fn the_end_is_told_to_who_reads_and_waits_for_nobody_else() {
    let served = serve(LIMITS);
    let mut reader = connect(served.at);
    let events = format!("GET {}events HTTP/1.1\r\nHost: localhost\r\n\r\n", served.page);
    reader.write_all(events.as_bytes()).expect("sent");
    let _silent = connect(served.at);
    // The stream has begun.
    let mut first = [0; 15];
    reader.read_exact(&mut first).expect("its head");
    served.board.publish(&Known {
        phase: crate::state::Phase::Ended,
        end: Some(serde_json::json!({"valid": true}).into()),
        ..Known::default()
    });
    served.server.finish();
    let told = rest(reader);
    assert!(told.ends_with("event: end\ndata: {\"valid\":true}\n\n"), "{told}");
}
