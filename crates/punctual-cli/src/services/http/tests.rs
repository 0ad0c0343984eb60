//! Requests against a server of this test's own.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Answers one connection after another with these, and gives what it was asked. `HOST` becomes its own address.
async fn server(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let own = host.clone();
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !is_whole(&bytes) {
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).await.unwrap();
                assert!(count > 0, "the request broke off: {}", String::from_utf8_lossy(&bytes));
                bytes.extend_from_slice(&buffer[..count]);
            }
            asked.push(String::from_utf8(bytes).unwrap());
            stream.write_all(answer.replace("HOST", &own).as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
        asked
    });
    (host, asked)
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    body.len() >= length
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

fn request(url: String) -> http::Request {
    http::Request { url, method: None, headers: BTreeMap::new(), body: None, json: None, follow_redirects: None }
}

fn service() -> HttpService {
    HttpService::new(Vec::new()).unwrap()
}

/// A request reaches its server as it was written, and what is kept of the answer is what came.
#[tokio::test]
async fn requests_and_answers_are_whole() {
    let json = answer("201 Created", "Content-Type: application/json\r\n", "{\"ok\":true}");
    let (host, asked) = server(vec![json.clone(), answer("200 OK", "", "")]).await;
    let sent = http::Request {
        headers: [("X-Tenant".to_owned(), "a".to_owned())].into(),
        json: Some(serde_json::json!({"order": 42})),
        ..request(format!("http://{host}/charge?a=1"))
    };
    let response = service().send(sent).await.unwrap();
    assert_eq!((response.status, response.body.as_str(), response.cut), (201, "{\"ok\":true}", false));
    assert_eq!(response.content_type.as_deref(), Some("application/json"));
    let sent = http::Request {
        method: Some("put".to_owned()),
        body: Some("text".to_owned()),
        ..request(format!("http://{host}/"))
    };
    service().send(sent).await.unwrap();
    let asked = asked.await.unwrap();
    let first = asked[0].to_lowercase();
    assert!(first.starts_with("post /charge?a=1 http/1.1\r\n"), "{first}");
    assert!(first.contains("x-tenant: a\r\n") && first.contains("content-type: application/json\r\n"), "{first}");
    assert!(first.ends_with("{\"order\":42}"), "{first}");
    assert!(asked[1].starts_with("PUT / ") && asked[1].ends_with("text"), "{}", asked[1]);
}

/// The status decides, with the wait that the server asks for; the error keeps what the server said.
#[tokio::test]
async fn the_status_decides() {
    let busy = answer("503 Service Unavailable", "Retry-After: 7\r\n", "later");
    let (host, _asked) = server(vec![busy, answer("404 Not Found", "", "nothing")]).await;
    let error = service().send(request(format!("http://{host}/"))).await.unwrap_err();
    let HttpError::Status { response, retry_after } = error else { panic!("{error:?}") };
    assert_eq!((response.status, response.body.as_str(), retry_after), (503, "later", Some(7)));
    let error = service().send(request(format!("http://{host}/"))).await.unwrap_err();
    assert!(matches!(&error, HttpError::Status { response, retry_after: None } if response.status == 404), "{error:?}");
}

/// Redirects are followed a few times, never to where this worker may not go, and not at all if that is asked for.
#[tokio::test]
async fn redirects_are_bounded() {
    let away = |to: &str| answer("302 Found", &format!("Location: {to}\r\n"), "");
    let (host, _asked) = server(vec![away("/next"), answer("200 OK", "", "here")]).await;
    let response = service().send(request(format!("http://{host}/"))).await.unwrap();
    assert_eq!((response.url, response.body.as_str()), (format!("http://{host}/next"), "here"));

    let (host, _asked) = server(vec![away("/again"); REDIRECTS_MAX + 1]).await;
    let error = service().send(request(format!("http://{host}/"))).await.unwrap_err();
    assert!(matches!(&error, HttpError::Refused { reason } if reason.contains("redirects in a row")), "{error:?}");

    let (host, _asked) = server(vec![away("http://elsewhere.test/")]).await;
    let bounded = HttpService::new(vec![host.parse().unwrap()]).unwrap();
    let error = bounded.send(request(format!("http://{host}/"))).await.unwrap_err();
    assert!(matches!(&error, HttpError::Refused { reason } if reason.contains("elsewhere.test")), "{error:?}");

    let (host, _asked) = server(vec![away("/next")]).await;
    let stay = http::Request { follow_redirects: Some(false), ..request(format!("http://{host}/")) };
    let error = service().send(stay).await.unwrap_err();
    assert!(matches!(&error, HttpError::Status { response, .. } if response.status == 302), "{error:?}");
}

/// A body of any length costs no more than what is kept of it, and one that breaks off is no success.
#[tokio::test]
async fn bodies_are_bounded() {
    let long = answer("200 OK", "", &"x".repeat(BODY_BYTES_MAX + 1));
    let whole = answer("200 OK", "", &"x".repeat(BODY_BYTES_MAX));
    let broken = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_owned();
    let (host, _asked) = server(vec![long, whole, broken]).await;
    let response = service().send(request(format!("http://{host}/"))).await.unwrap();
    assert_eq!((response.body.len(), response.cut), (BODY_BYTES_MAX, true));
    let response = service().send(request(format!("http://{host}/"))).await.unwrap();
    assert_eq!((response.body.len(), response.cut), (BODY_BYTES_MAX, false));
    let error = service().send(request(format!("http://{host}/"))).await.unwrap_err();
    assert!(matches!(error, HttpError::NoAnswer { .. }), "{error:?}");
}

/// Nobody there is worth another try; a place where this worker may not go is not. Neither text shows a password.
#[tokio::test]
async fn no_answer_is_told_from_no_permission() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let error = service().send(request(format!("http://user:secret@{closed}/"))).await.unwrap_err();
    assert!(matches!(&error, HttpError::NoAnswer { reason } if reason.contains("127.0.0.1")), "{error:?}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    let bounded = HttpService::new(vec!["example.org".parse().unwrap()]).unwrap();
    let error = bounded.send(request(format!("http://{closed}/"))).await.unwrap_err();
    assert!(matches!(&error, HttpError::Refused { reason } if reason.contains("--http-allow")), "{error:?}");
}

/// Encryption is never given up: a server that speaks none is no answer.
#[tokio::test]
async fn plain_servers_are_no_tls_servers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap();
    let plain = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(answer("200 OK", "", "plain").as_bytes()).await.unwrap();
    });
    let error = service().send(request(format!("https://{host}/"))).await.unwrap_err();
    assert!(matches!(&error, HttpError::NoAnswer { .. }), "{error:?}");
    plain.await.unwrap();
}
