//! What is changed behind the server's back, column by column, and the code by which the audit says so.

/// What is done to the data directory of a stopped server.
pub enum Harm {
    /// A statement without foreign keys.
    Sql(&'static str),
    /// The file of round 3 is gone.
    Remove,
    /// It ends one byte early.
    Cut,
    /// One bit of it is another.
    Flip,
}

pub struct Case {
    pub name: &'static str,
    pub harm: Harm,
    pub tier: &'static str,
    pub code: &'static str,
    /// Whether a client sees it too: some of it lies where only the server looks.
    pub client: bool,
}

const fn sql(name: &'static str, statement: &'static str, code: &'static str, client: bool) -> Case {
    Case { name, harm: Harm::Sql(statement), tier: "quick", code, client }
}

/// What only the bytes contradict, and only on the server.
const fn deep(name: &'static str, statement: &'static str) -> Case {
    Case { name, harm: Harm::Sql(statement), tier: "deep", code: "STATE_DIVERGES", client: false }
}

pub const CASES: &[Case] = &[
    sql(
        "round: hash",
        "update rounds set content_hash = replace(content_hash, substr(content_hash, 9, 1), 'x') where round_index = 3",
        "ENTRY_MALFORMED",
        false,
    ),
    sql(
        "round: other hash",
        "update rounds set content_hash = reverse_hex(content_hash) where round_index = 3",
        "BLOB_MISSING",
        true,
    ),
    sql(
        "round: parent",
        "update rounds set parent_hash = reverse_hex(parent_hash) where round_index = 3",
        "PARENT_CONTENT_MISMATCH",
        true,
    ),
    sql("round: no parent", "update rounds set parent_hash = null where round_index = 3", "PARENT_ORPHAN", true),
    sql("round gone", "delete from rounds where round_index = 3", "ROUND_REORDERED", true),
    sql("round 0 gone", "delete from rounds where round_index = 0", "LINEAGE_NO_GENESIS", true),
    sql(
        "head",
        "update runs set head_round = 4, head_hash = (select content_hash from rounds where round_index = 4)",
        "HEAD_MISMATCH",
        true,
    ),
    sql("pin", "update runs set wmcp_version = 'wmcp-1.0.1'", "STATE_DIVERGES", true),
    sql(
        "header byte",
        "update artifacts set header = cast(replace(cast(header as text), 'wmcp-1.0.0', 'wmcp-1.0.1') as blob) where round_index = 3",
        "BLOB_HASH_MISMATCH",
        true,
    ),
    sql("artifact: round", "update artifacts set round_index = 7 where round_index = 3", "STATE_DIVERGES", false),
    sql(
        "artifact: parent",
        "update artifacts set parent_hash = reverse_hex(parent_hash) where round_index = 3",
        "STATE_DIVERGES",
        true,
    ),
    sql("artifact gone", "delete from artifacts where round_index = 3", "BLOB_MISSING", true),
    sql(
        "group",
        "update artifact_groups set group_hash = reverse_hex(group_hash) where name = 'encoder'",
        "STATE_DIVERGES",
        true,
    ),
    sql(
        "files gone",
        "delete from artifact_files where content_hash = (select content_hash from rounds where round_index = 3)",
        "BLOB_MISSING",
        true,
    ),
    sql(
        "digest of the header",
        "update rounds set header_digest = reverse_hex(header_digest) where round_index = 3",
        "BLOB_HASH_MISMATCH",
        false,
    ),
    sql("attempt", "update rounds set attempt = 4 where round_index = 3", "STATE_DIVERGES", true),
    sql("abort gone", "delete from aborts", "STATE_DIVERGES", true),
    sql(
        "ledger line",
        "update ledger_records set line = replace(line, '\"round_index\":2', '\"round_index\":1') where round_index = 2",
        "LEDGER_CHAIN_BROKEN",
        true,
    ),
    sql(
        "ledger root",
        "update ledger_records set line = replace(line, 'acme', 'acne') where round_index = 2",
        "LEDGER_CHAIN_BROKEN",
        true,
    ),
    sql(
        "ledger hash",
        "update ledger_records set record_hash = reverse_hex(record_hash) where round_index = 2",
        "LEDGER_CHAIN_BROKEN",
        false,
    ),
    sql("ledger record gone", "delete from ledger_records where round_index = 2", "LEDGER_CHAIN_BROKEN", true),
    sql("ledger tail gone", "delete from ledger_records where round_index = 4", "LEDGER_CHAIN_BROKEN", true),
    sql(
        "ledger: not JSON",
        "update ledger_records set line = substr(line, 2) where round_index = 2",
        "ENTRY_MALFORMED",
        true,
    ),
    sql(
        "ledger: checkpoint",
        "update ledger_records set global_model_hash = reverse_hex(global_model_hash) where round_index = 2",
        "ROUND_CONTRIBUTIONS_MISMATCH",
        false,
    ),
    sql(
        "commitment",
        "update commitments set merkle_root = reverse_hex(merkle_root) where participant = 'acme'",
        "ROUND_CONTRIBUTIONS_MISMATCH",
        true,
    ),
    sql(
        "document",
        "update documents set body = cast(replace(cast(body as text), 'arm-0', 'arm-1') as blob)",
        "BLOB_HASH_MISMATCH",
        true,
    ),
    sql(
        "event gone",
        "delete from events where kind = 'round.close' and event_seq = (select max(event_seq) - 2 from events)",
        "STATE_DIVERGES",
        false,
    ),
    sql(
        "event",
        "update events set data = replace(data, '\"round_index\":3', '\"round_index\":2') where kind = 'checkpoint.committed'",
        "STATE_DIVERGES",
        false,
    ),
    sql("consortium", "update runs set consortium = 'acne'", "STATE_DIVERGES", false),
    sql("participants", "update runs set participants = '[\"acme\",\"zeta\"]'", "ROUND_CONTRIBUTIONS_MISMATCH", true),
    sql("round of the ledger's end", "update runs set ledger_round = 3", "LEDGER_CHAIN_BROKEN", true),
    sql(
        "round: time",
        "update rounds set committed_at = committed_at + 1 where round_index = 3",
        "STATE_DIVERGES",
        false,
    ),
    sql("round: version", "update rounds set schema_version = 1 where round_index = 3", "STATE_DIVERGES", false),
    deep("round: structure", "update rounds set structure = reverse_hex(structure) where round_index = 3"),
    sql("artifact: version", "update artifacts set schema_version = 1 where round_index = 3", "STATE_DIVERGES", false),
    sql(
        "artifact: configuration",
        "update artifacts set config_hash = reverse_hex(config_hash) where round_index = 3",
        "STATE_DIVERGES",
        false,
    ),
    deep("artifact: tensors", "update artifacts set tensor_count = tensor_count + 1 where round_index = 3"),
    Case {
        tier: "deep",
        ..sql(
            "group: name",
            "update artifact_groups set name = 'decoder' where name = 'predictor'",
            "BLOB_HASH_MISMATCH",
            true,
        )
    },
    Case {
        tier: "deep",
        ..sql(
            "group: size",
            "update artifact_groups set size = size + 1 where name = 'encoder'",
            "BLOB_HASH_MISMATCH",
            false,
        )
    },
    sql("abort: place", "update aborts set event_seq = 1000", "STATE_DIVERGES", false),
    sql("abort: attempt", "update aborts set attempt = 2", "STATE_DIVERGES", false),
    sql("abort: reason", "update aborts set reason_code = 'gauge_failed'", "STATE_DIVERGES", false),
    sql("abort: detail", "update aborts set detail = 'none'", "STATE_DIVERGES", false),
    sql("abort: time", "update aborts set at = at + 1", "STATE_DIVERGES", false),
    sql("event: kind", "update events set kind = 'round.open' where kind = 'round.aborted'", "ENTRY_MALFORMED", false),
    sql("event: time", "update events set at = at + 1 where event_seq = 2", "STATE_DIVERGES", false),
    sql(
        "event: record",
        "update events set data = replace(data, '\"record_hash\":\"', '\"record_hash\":\"0') \
            where kind = 'checkpoint.committed'",
        "LEDGER_CHAIN_BROKEN",
        false,
    ),
    sql(
        "event: close",
        "update events set data = replace(data, '\"round_index\":3', '\"round_index\":2') where kind = 'round.close'",
        "STATE_DIVERGES",
        false,
    ),
    sql(
        "event: participant",
        "update events set data = replace(data, 'acme', 'acne') where kind = 'dataset.committed'",
        "STATE_DIVERGES",
        false,
    ),
    sql("event: time of a close", "update events set at = at + 1 where kind = 'round.close'", "STATE_DIVERGES", false),
    sql(
        "commitment: time",
        "update commitments set received_at = 1 where participant = 'acme'",
        "STATE_DIVERGES",
        false,
    ),
    sql("document: negative", "update documents set seq = -1 where seq = 2", "STATE_DIVERGES", false),
    Case {
        tier: "deep",
        ..sql("file: name", "update artifact_files set name = 'x.safetensors'", "BLOB_HASH_MISMATCH", true)
    },
    sql("event: not JSON", "update events set data = substr(data, 2) where event_seq = 1", "ENTRY_MALFORMED", false),
    sql("commitment: round", "update commitments set from_round = 1 where participant = 'acme'", "BLOB_MISSING", true),
    sql("commitment: last", "delete from commitments where participant = 'zeta'", "BLOB_MISSING", true),
    sql("document: place", "update documents set seq = 1000 where seq = 1", "STATE_DIVERGES", false),
    sql("document: kind", "update documents set kind = 'run-manifest' where seq = 1", "ENTRY_MALFORMED", true),
    sql("document: version", "update documents set schema_version = 2 where seq = 1", "STATE_DIVERGES", false),
    sql("document: size", "update documents set size = size + 1 where seq = 1", "STATE_DIVERGES", false),
    sql("document: no body", "update documents set body = null where seq = 1", "BLOB_MISSING", true),
    sql("document: summary", "update documents set summary = '{}' where seq = 1", "STATE_DIVERGES", false),
    sql("document: time", "update documents set received_at = 1 where seq = 1", "STATE_DIVERGES", false),
    sql("document gone", "delete from documents where seq = 2", "BLOB_MISSING", true),
    // The highest number there can be: what asks for the next one after it must still come to an end.
    sql(
        "ledger: highest",
        "update ledger_records set round_index = 9223372036854775807 where round_index = 4",
        "LEDGER_CHAIN_BROKEN",
        true,
    ),
    sql("document: highest", "update documents set seq = 9223372036854775807 where seq = 2", "STATE_DIVERGES", false),
    sql(
        "event: highest",
        "update events set event_seq = 9223372036854775807 where event_seq = 2",
        "STATE_DIVERGES",
        false,
    ),
    Case { name: "file gone", harm: Harm::Remove, tier: "quick", code: "BLOB_MISSING", client: true },
    Case { name: "file cut", harm: Harm::Cut, tier: "full", code: "BLOB_SIZE_MISMATCH", client: true },
    Case { name: "file bit", harm: Harm::Flip, tier: "deep", code: "BLOB_HASH_MISMATCH", client: true },
];
