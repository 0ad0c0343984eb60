//! Which hosts, tokens and origins get in.

use super::*;
use axum::http::Request;

fn parts(method: &str, headers: &[(&str, &str)]) -> Parts {
    let request = Request::builder().method(method).uri("/x");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap().into_parts().0
}

fn guard(address: &str, hosts: &[&str]) -> Guard {
    let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    Guard::new(&HttpSettings { hosts, ..HttpSettings::default() }, address.parse().unwrap(), None)
}

/// A request gets in under the names of its address and those that the settings add, and under no other.
#[test]
fn hosts_are_those_that_are_allowed() {
    let named = |guard: &Guard, host: &str| guard.host(&parts("GET", &[("host", host)])).is_ok();
    let local = guard("127.0.0.1:8080", &["punctual.example.org"]);
    for host in ["localhost:8080", "127.0.0.1", "[::1]:9", "LOCALHOST", "punctual.example.org:443"] {
        assert!(named(&local, host), "{host}");
    }
    for host in ["evil.test", "127.0.0.1.evil.test", "a@localhost", "localhost:8080:9", "", "localhost/x", "0.0.0.0"] {
        assert!(!named(&local, host), "{host}");
    }
    assert!(local.host(&parts("GET", &[])).is_err());
    assert!(local.host(&parts("GET", &[("host", "localhost"), ("host", "evil.test")])).is_err());
    assert!(named(&guard("10.1.2.3:80", &[]), "10.1.2.3") && !named(&guard("10.1.2.3:80", &[]), "localhost"));
    assert!(!named(&guard("0.0.0.0:80", &[]), "10.1.2.3"));
}

/// A write that a browser could be made to send by a page of another site is refused; one of a program is not.
#[test]
fn writes_of_other_sites_are_refused() {
    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const HOSTED: (&str, &str) = ("host", "127.0.0.1:8080");
    let code =
        |headers: &[(&str, &str)]| write(&parts("POST", headers)).map_err(|refusal| refusal.answer().status().as_u16());
    assert_eq!(code(&[JSON, HOSTED]), Ok(()));
    assert_eq!(code(&[JSON, HOSTED, ("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")]), Ok(()));
    assert_eq!(code(&[JSON, HOSTED, ("sec-fetch-site", "none")]), Ok(()));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""] {
        assert_eq!(code(&[HOSTED, ("content-type", kind)]), Err(415), "{kind}");
    }
    assert_eq!(code(&[HOSTED]), Err(415));
    for origin in ["http://evil.test", "null", "http://127.0.0.1:8081", "file://127.0.0.1:8080"] {
        assert_eq!(code(&[JSON, HOSTED, ("origin", origin)]), Err(403), "{origin}");
    }
    for site in ["cross-site", "same-site"] {
        assert_eq!(code(&[JSON, HOSTED, ("sec-fetch-site", site)]), Err(403), "{site}");
    }
    assert!(write(&parts("GET", &[("sec-fetch-site", "cross-site")])).is_ok());
}
