//! A resolved configuration and its hash (Lensemble RFC-0009 section 7, `sha256-canon-v1`).

use crate::core::digest::ConfigHash;
use crate::core::error::{DomainError, ErrorCode};
use crate::core::json::{Dialect, Value};
use crate::core::sha256::Sha256;

/// Where a run writes its logs changes nothing of what it computes, so these two stay out of the hash.
const SINKS: [&str; 2] = ["log_path", "metrics_path"];

/// Reads a configuration, which must be an object.
///
/// # Errors
/// `config_invalid`.
pub fn parse_config(text: &[u8]) -> Result<Value, DomainError> {
    let refuse = |why: String| DomainError::new(ErrorCode::ConfigInvalid, why);
    match Value::parse(text).map_err(|why| refuse(format!("the configuration is not valid: {why}")))? {
        config @ Value::Object(_) => Ok(config),
        other => Err(refuse(format!("the configuration must be an object and is {}", other.kind()))),
    }
}

/// The hash of a configuration: over its canonical bytes without the paths of its logs.
///
/// The object that held them stays, even empty, and so do equal names elsewhere.
#[must_use]
pub fn config_hash(config: &Value) -> ConfigHash {
    ConfigHash::from_bytes(Sha256::digest(&canonical(config)))
}

/// The bytes that are hashed.
fn canonical(config: &Value) -> Vec<u8> {
    let mut config = config.clone();
    if let Value::Object(root) = &mut config
        && let Some(Value::Object(observability)) = root.get_mut("observability")
    {
        for name in SINKS {
            observability.remove(name);
        }
    }
    config.canonical(Dialect::Ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::{bytes, vectors};

    #[test]
    fn configurations_have_lensembles_hashes() {
        let mut accepted = 0;
        for vector in vectors("config-hash", 24) {
            let codes = vector.codes();
            match parse_config(&vector.bytes()) {
                Ok(config) => {
                    assert_eq!(codes, [""; 0], "{}", vector.id);
                    assert_eq!(canonical(&config), bytes(vector.entry["canonical"].as_str().unwrap()), "{}", vector.id);
                    let expected = &vector.entry["expect"]["config_hash"];
                    assert_eq!(*expected, config_hash(&config).to_string(), "{}", vector.id);
                    accepted += 1;
                }
                Err(error) => assert!(codes.contains(&error.code().as_str()), "{}: {error}", vector.id),
            }
        }
        assert_eq!(accepted, 18);
    }
}
