//! Many services, and many callers that find at once that they differ.

use super::*;
use punctual_proto::schema::Type;
use std::collections::BTreeSet;
use std::thread;

/// More services than have a quick place, each with a method that is the same on the server and one that is not.
fn services() -> Vec<&'static ServiceDescriptor> {
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let service = |number: usize| -> &'static ServiceDescriptor {
        let name = leak(format!("S{number}"));
        let methods = ["same", "other"].map(|method| {
            MethodDescriptor::unary(leak(format!("{name}/{method}")), &Type::Unit, &Type::U8, &Type::Status)
        });
        Box::leak(Box::new(ServiceDescriptor::new(name, "", Box::leak(Box::new(methods)))))
    };
    (0..3 * QUICK).map(service).collect()
}

fn entry(service: &ServiceDescriptor, contract: [u8; 16]) -> ServiceEntry {
    ServiceEntry { name: service.name.to_owned(), contract }
}

fn codecs(contracts: &Contracts, service: &'static ServiceDescriptor) -> Vec<Codec> {
    service.methods.iter().map(|method| contracts.codec(service, method)).collect()
}

/// However many callers compare a service at once, it is asked about once, and all of them see what was told; one that is the
/// same, or that the server does not have, is not asked about.
#[test]
fn each_service_that_differs_is_asked_about_once() {
    let services = services();
    let (same, others) = services.split_at(3);
    let (absent, differing) = others.split_at(3);
    let ours = same.iter().map(|service| entry(service, service.contract_hash()));
    let announced: Vec<ServiceEntry> = ours.chain(differing.iter().map(|service| entry(service, [7; 16]))).collect();
    let contracts = Contracts::new(&announced);
    thread::scope(|scope| {
        for first in 0..4 {
            let (services, contracts) = (&services, &contracts);
            scope.spawn(move || {
                for at in 0..services.len() {
                    // Each caller begins elsewhere, so that they meet.
                    codecs(contracts, services[(at + first) % services.len()]);
                }
            });
        }
    });
    assert!(same.iter().all(|service| codecs(&contracts, service) == [Codec::Compact; 2]));
    let asked: Vec<Arc<Differing>> = contracts.unasked.lock().unwrap().drain(..).collect();
    let names: BTreeSet<&str> = asked.iter().map(|differing| differing.service().name).collect();
    assert_eq!(names, differing.iter().map(|service| service.name).collect());
    assert_eq!(asked.len(), differing.len(), "none twice");
    for service in &asked {
        assert_eq!(codecs(&contracts, service.service()), [Codec::Named; 2]);
        service.settle(vec![service.service().methods[0].id]);
        assert_eq!(codecs(&contracts, service.service()), [Codec::Compact, Codec::Named]);
    }
    assert!(absent.iter().all(|service| codecs(&contracts, service) == [Codec::Named; 2]));
}
