//! Every crate of the lock file, whatever it is used for, keeps to the policy in `deny.toml`: licences,
//! sources, versions. `cargo deny check` reads the same file and knows advisories besides.

use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use tests::workspace;
use toml::Table;

fn policy() -> &'static Table {
    static POLICY: OnceLock<Table> = OnceLock::new();
    POLICY.get_or_init(|| {
        let text = fs::read_to_string(workspace().join("deny.toml")).expect("a policy");
        text.parse().expect("a policy in TOML")
    })
}

/// The list at `section.key`; none is an empty one.
fn list(section: &str, key: &str) -> &'static [toml::Value] {
    let section = policy()[section].as_table().expect("a section");
    let list = section
        .get(key)
        .map(|list| list.as_array().expect("a list"));
    list.map_or(&[], Vec::as_slice)
}

fn is_denied(section: &str, key: &str) -> bool {
    policy()[section].get(key).and_then(toml::Value::as_str) == Some("deny")
}

fn texts(list: &[toml::Value]) -> impl Iterator<Item = &str> {
    list.iter().map(|text| text.as_str().expect("a text"))
}

/// A crate of the lock file, as cargo describes it.
#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    license: String,
    /// None of this workspace's own.
    source: Option<String>,
    /// Names of crates that it takes in any version, from wherever but a folder.
    wildcards: Vec<String>,
}

fn packages() -> Vec<Package> {
    let output = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["metadata", "--locked", "--all-features"])
        .args(["--format-version", "1"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 50, "cargo shows too little");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let package = |package: &Value| {
        let wildcards = package["dependencies"].as_array().expect("dependencies");
        let wildcards = wildcards
            .iter()
            .filter(|on| on["req"] == "*" && on["path"].is_null());
        Package {
            name: text(&package["name"]).expect("a name"),
            version: text(&package["version"]).expect("a version"),
            license: text(&package["license"]).unwrap_or_default(),
            source: text(&package["source"]),
            wildcards: wildcards.filter_map(|on| text(&on["name"])).collect(),
        }
    };
    packages.iter().map(package).collect()
}

/// Whether the policy takes a crate under this licence.
fn is_allowed(name: &str, license: &str) -> bool {
    let exceptions = list("licenses", "exceptions").iter();
    let own = exceptions.filter(|exception| exception["crate"].as_str() == Some(name));
    let own = own.flat_map(|exception| exception["allow"].as_array().expect("a list"));
    let own: Vec<_> = own.map(|text| text.as_str().expect("a text")).collect();
    let allowed: Vec<_> = texts(list("licenses", "allow")).chain(own).collect();
    // Older crates write `MIT/Apache-2.0`.
    let Ok(expression) = Expression::parse_mode(license, ParseMode::LAX) else {
        return false;
    };
    let is_one = |needed: &LicenseReq| allowed.contains(&needed.to_string().as_str());
    expression.evaluate(is_one)
}

#[test]
fn every_crate_has_a_licence_that_the_policy_allows() {
    for Package { name, license, .. } in packages() {
        assert!(is_allowed(&name, &license), "{name}: {license:?}");
    }
}

#[test]
fn every_exception_is_needed() {
    let packages = packages();
    for exception in list("licenses", "exceptions") {
        let name = exception["crate"].as_str().expect("a name");
        let package = packages.iter().find(|package| package.name == name);
        let package = package.unwrap_or_else(|| panic!("nothing depends on {name}"));
        assert!(!is_allowed("", &package.license), "{name} needs none");
    }
}

#[test]
fn licences_are_judged_as_they_are_written() {
    for (license, expected) in [
        ("MIT/Apache-2.0", true),
        ("Unlicense OR MIT", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("GPL-3.0-only", false),
        ("my own", false),
        ("", false),
    ] {
        assert_eq!(is_allowed("", license), expected, "{license:?}");
    }
    assert!(is_allowed(
        "unicode-ident",
        "(MIT OR Apache-2.0) AND Unicode-3.0"
    ));
}

#[test]
fn every_crate_comes_from_the_registry_or_this_workspace() {
    assert!(is_denied("sources", "unknown-registry") && is_denied("sources", "unknown-git"));
    let sources: BTreeSet<_> = packages().into_iter().filter_map(|p| p.source).collect();
    let sources: Vec<_> = sources.iter().map(String::as_str).collect();
    let [registry] = sources[..] else {
        panic!("{sources:?}")
    };
    let is_cargos = registry.starts_with("registry+") && registry.ends_with("/crates.io-index");
    assert!(is_cargos, "{registry}");
    assert!(list("sources", "allow-git").is_empty());
}

#[test]
fn every_crate_is_there_once_but_those_that_are_named() {
    assert!(is_denied("bans", "multiple-versions") && is_denied("bans", "wildcards"));
    let mut versions = BTreeMap::<String, BTreeSet<String>>::new();
    for package in packages() {
        assert!(package.wildcards.is_empty(), "{package:?}");
        let of_name = versions.entry(package.name).or_default();
        of_name.insert(package.version);
    }
    for skip in list("bans", "skip") {
        let skip = skip["crate"].as_str().expect("a crate");
        let (name, version) = skip.split_once('@').expect("a version");
        let of_name = versions.get_mut(name);
        let is_one = of_name.is_some_and(|all| all.len() > 1 && all.remove(version));
        assert!(is_one, "nothing needs {skip}");
    }
    let several: Vec<_> = versions.iter().filter(|(_, all)| all.len() > 1).collect();
    assert!(several.is_empty(), "{several:?}");
}
