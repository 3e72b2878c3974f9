//! Every statement, once. Both SQLite and Postgres accept `$1` and `returning`.
//!
//! A test prepares each of [`ALL`] against a migrated database, which replaces checking at compile time.

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        /// All of them, for the test that prepares each.
        pub const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

/// A statement that differs between the databases. Keep them few.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// For SQLite.
    pub sqlite: &'static str,
    /// For Postgres.
    pub postgres: &'static str,
}

macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident = $sqlite:literal, then $clause:literal;)*) => {
        $($(#[$doc])* pub const $name: Pair = Pair { sqlite: $sqlite, postgres: concat!($sqlite, $clause) };)*

        /// All pairs, for the same test.
        pub const PAIRS: &[(&str, Pair)] = &[$((stringify!($name), $name)),*];
    };
}

// Rows that Postgres must lock before a transaction decides on what it reads. SQLite has one lock for all of them.
pairs! {
    /// A run.
    LOCK_RUN = "select run from runs where run = $1", then " for update";
    /// An upload session.
    LOCK_UPLOAD = "select id from uploads where id = $1", then " for update";
    /// A blob that is about to be adopted.
    BLOB_TO_ADOPT = "select blob_key, size, stamp, damaged_at from blobs where digest = $1", then " for update";
}

statements! {
    /// Readiness.
    PING = "select 1";

    /// One artifact without its header.
    ARTIFACT = "select header_digest, cast(length(header) as bigint), schema_version, round_index, parent_hash, \
        config_hash, tensor_count, size, received_at, verified_at, verified_how from artifacts where content_hash = $1";
    /// The header as it was received.
    ARTIFACT_HEADER = "select header from artifacts where content_hash = $1";
    /// What tells two headers apart.
    ARTIFACT_HEADER_DIGEST = "select header_digest from artifacts where content_hash = $1";
    /// The files of an artifact with their blobs.
    ARTIFACT_FILES = "select f.name, f.digest, b.blob_key, b.size, b.stamp, b.damaged_at from artifact_files f \
        join blobs b on b.digest = f.digest where f.content_hash = $1 order by f.position";
    /// The groups of an artifact.
    ARTIFACT_GROUPS = "select name, group_hash, size, tensor_count from artifact_groups where content_hash = $1 \
        order by position";
    /// Artifacts that hold a group, for a reader who knows only the group's hash.
    GROUP_HOLDERS = "select content_hash, name from artifact_groups where group_hash = $1 order by content_hash limit 8";
    /// One link of a chain.
    LINK = "select round_index, parent_hash from artifacts where content_hash = $1";
    /// Artifacts that descend from one directly.
    CHILDREN = "select content_hash, round_index, parent_hash from artifacts where parent_hash = $1 \
        order by content_hash limit $2";
    /// A new artifact, just verified.
    INSERT_ARTIFACT = "insert into artifacts (content_hash, header, header_digest, schema_version, \
        round_index, parent_hash, config_hash, tensor_count, size, received_at, verified_at, verified_how) \
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, 'upload')";
    /// The same, with the header that the upload session holds already.
    INSERT_ARTIFACT_OF_UPLOAD = "insert into artifacts (content_hash, header, header_digest, schema_version, \
        round_index, parent_hash, config_hash, tensor_count, size, received_at, verified_at, verified_how) \
        select $1, header, $3, $4, $5, $6, $7, $8, $9, $10, $10, 'upload' from uploads where id = $2";
    /// One of its files.
    INSERT_ARTIFACT_FILE = "insert into artifact_files (content_hash, position, name, digest) values ($1, $2, $3, $4)";
    /// One of its groups.
    INSERT_ARTIFACT_GROUP = "insert into artifact_groups (content_hash, position, name, group_hash, size, tensor_count) \
        values ($1, $2, $3, $4, $5, $6)";
    /// When and how it was last verified.
    SET_VERIFIED = "update artifacts set verified_at = $2, verified_how = $3 where content_hash = $1";

    /// A blob by its digest.
    BLOB = "select blob_key, size, stamp, damaged_at from blobs where digest = $1";
    /// A new blob.
    INSERT_BLOB = "insert into blobs (digest, blob_key, size, stamp) values ($1, $2, $3, $4)";
    /// Puts fresh bytes in the place of damaged ones.
    REPLACE_BLOB = "update blobs set blob_key = $2, size = $3, stamp = $4, damaged_at = null where digest = $1";
    /// What the file of a blob looks like while its bytes are right.
    SET_STAMP = "update blobs set stamp = $3, damaged_at = null where digest = $1 and blob_key = $2";
    /// Its bytes are wrong.
    SET_DAMAGED = "update blobs set damaged_at = $3 where digest = $1 and blob_key = $2 and damaged_at is null";
    /// Whether anything refers to a key.
    KEY_IN_USE = "select cast(1 as bigint) from blobs where blob_key = $1 \
        union all select cast(1 as bigint) from upload_files where blob_key = $1 limit 1";

    /// A new session.
    INSERT_UPLOAD = "insert into uploads (id, content_hash, header, header_digest, weight_files, state, created_at, \
        expires_at, round_index, parent_hash) values ($1, $2, $3, $4, $5, 'open', $6, $7, $8, $9)";
    /// One of the files that it expects.
    INSERT_UPLOAD_FILE = "insert into upload_files (upload_id, position, stored, writer) values ($1, $2, 0, 0)";
    /// A session without its header, which may be large.
    UPLOAD = "select content_hash, header_digest, weight_files, state, problem, created_at, expires_at from uploads \
        where id = $1";
    /// What a session is loaded from.
    UPLOAD_HEADER = "select header, walks from uploads where id = $1";
    /// The files of a session.
    UPLOAD_FILES = "select position, blob_key, stored, length, digest_state, writer from upload_files \
        where upload_id = $1 order by position";
    /// A new writer of a file; the older one can save no more.
    CLAIM_UPLOAD_FILE = "insert into upload_files (upload_id, position, stored, writer) values ($1, $2, 0, 1) \
        on conflict (upload_id, position) do update set writer = upload_files.writer + 1 returning writer";
    /// How far a file has come; only its newest writer may say so.
    SAVE_UPLOAD_FILE = "update upload_files set blob_key = $4, stored = $5, length = $6, digest_state = $7 \
        where upload_id = $1 and position = $2 and writer = $3";
    /// How far the digests that span files have come.
    SAVE_UPLOAD_WALKS = "update uploads set walks = $2, expires_at = $3 where id = $1 and state = 'open'";
    /// Ends a session.
    CLOSE_UPLOAD = "update uploads set state = $2, problem = $3, walks = null where id = $1 and state = 'open'";
    /// Forgets what a session had stored, after it has ended.
    CLEAR_UPLOAD_FILES = "update upload_files set blob_key = null, stored = 0, digest_state = null where upload_id = $1";
    /// Open sessions whose time is over, and ended ones that nobody needs to read any more.
    EXPIRED_UPLOADS = "select id from uploads where expires_at < $1 order by expires_at limit 100";
    /// Where a session has put its bytes.
    UPLOAD_KEYS = "select blob_key from upload_files where upload_id = $1 and blob_key is not null";
    /// Forgets a session.
    DELETE_UPLOAD = "delete from uploads where id = $1";

    /// A new run.
    INSERT_RUN = "insert into runs (run, consortium, wmcp_version, probe_hash, probe_version, config_hash, warm_start, \
        participants, min_participants, visibility, created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    /// A run, with what a commit must know of its head.
    RUN = "select u.run, u.consortium, u.wmcp_version, u.probe_hash, u.probe_version, u.config_hash, u.warm_start, \
        u.participants, u.min_participants, u.visibility, u.created_at, u.head_round, u.head_hash, u.ledger_round, \
        u.ledger_tail, u.ledger_count, u.aborted, u.event_seq, r.structure, r.schema_version from runs u \
        left join rounds r on r.run = u.run and r.round_index = u.head_round where u.run = $1";
    /// Names of runs, newest first, from a place on.
    RUNS = "select run, created_at from runs where created_at < $1 or (created_at = $1 and run < $2) \
        order by created_at desc, run desc limit $3";
    /// Advances a run; touches no row when the run has moved meanwhile.
    ADVANCE_RUN = "update runs set head_round = $3, head_hash = $4, ledger_round = $5, ledger_tail = $6, \
        ledger_count = $7, aborted = 0, event_seq = $8 where run = $1 and coalesce(head_hash, '') = $2";
    /// Counts an event of a run.
    COUNT_EVENT = "update runs set event_seq = event_seq + 1 where run = $1 returning event_seq";
    /// Counts an abort of the round that is open.
    COUNT_ABORT = "update runs set event_seq = event_seq + 1, aborted = aborted + 1 where run = $1 \
        returning event_seq, aborted";

    /// A round of a run.
    INSERT_ROUND = "insert into rounds (run, round_index, content_hash, parent_hash, header_digest, structure, \
        schema_version, theta_hash, phi_hash, size, attempt, committed_at) \
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    /// What stands in the way of a commit: the round of this index, and the child of this parent.
    STANDING = "select round_index, content_hash, parent_hash from rounds \
        where run = $1 and (round_index = $2 or parent_hash = $3)";
    /// One round.
    ROUND = "select r.round_index, r.content_hash, r.parent_hash, r.theta_hash, r.phi_hash, r.size, r.attempt, \
        r.committed_at, l.record_hash from rounds r left join ledger_records l \
        on l.run = r.run and l.round_index = r.round_index - 1 where r.run = $1 and r.round_index = $2";
    /// Rounds before one, newest first.
    ROUNDS = "select r.round_index, r.content_hash, r.parent_hash, r.theta_hash, r.phi_hash, r.size, r.attempt, \
        r.committed_at, l.record_hash from rounds r left join ledger_records l \
        on l.run = r.run and l.round_index = r.round_index - 1 where r.run = $1 and r.round_index < $2 \
        order by r.round_index desc limit $3";
    /// The newest round of a run that has a group.
    ROUND_OF_GROUP = "select round_index, content_hash, \
        case when theta_hash = $2 then cast(1 as bigint) else cast(0 as bigint) end from rounds \
        where run = $1 and (theta_hash = $2 or phi_hash = $2) order by round_index desc limit 1";
    /// Rounds that committed an artifact.
    COMMITS_OF_ARTIFACT = "select run, round_index from rounds where content_hash = $1 order by committed_at limit 100";
    /// Files of an artifact that are known to be damaged.
    DAMAGED_FILES = "select count(*) from artifact_files f join blobs b on b.digest = f.digest \
        where f.content_hash = $1 and b.damaged_at is not null";
    /// Rounds from one on, oldest first, beside the artifacts that they name.
    ROUNDS_TO_AUDIT = "select r.round_index, r.content_hash, r.parent_hash, r.header_digest, r.theta_hash, r.phi_hash, \
        r.structure, r.schema_version, r.size, r.attempt, r.committed_at, a.header, a.header_digest as own_digest, \
        a.round_index as own_round, a.parent_hash as own_parent, a.size as own_size, a.config_hash as own_config, \
        a.schema_version as own_schema, a.tensor_count as own_tensors from rounds r \
        left join artifacts a on a.content_hash = r.content_hash \
        where r.run = $1 and r.round_index >= $2 order by r.round_index limit $3";
    /// Files of the artifacts of some rounds.
    FILES_TO_AUDIT = "select r.round_index, f.name, f.digest, b.blob_key, b.size, b.damaged_at from rounds r \
        join artifact_files f on f.content_hash = r.content_hash left join blobs b on b.digest = f.digest \
        where r.run = $1 and r.round_index >= $2 and r.round_index <= $3 order by r.round_index, f.position";
    /// Groups of the artifacts of some rounds.
    GROUPS_TO_AUDIT = "select r.round_index, g.name, g.group_hash, g.size, g.tensor_count from rounds r \
        join artifact_groups g on g.content_hash = r.content_hash \
        where r.run = $1 and r.round_index >= $2 and r.round_index <= $3 order by r.round_index, g.position";
    /// How often each round was aborted.
    ABORTS_BY_ROUND = "select round_index, count(*) from aborts where run = $1 and event_seq <= $2 \
        group by round_index order by round_index";
    /// Documents from one on, oldest first, with their bodies.
    DOCUMENTS_TO_AUDIT = "select d.seq, d.kind, d.digest, d.schema_version, d.size, d.summary, d.body, b.blob_key, \
        b.size as blob_size, b.damaged_at, exists(select 1 from events e where e.run = d.run and e.event_seq = d.seq) \
        as told from documents d left join blobs b on b.digest = d.digest \
        where d.run = $1 and d.seq > $2 order by d.seq limit $3";
    /// News after one, oldest first, beside the abort and the document that each tells of.
    EVENTS_TO_AUDIT = "select e.event_seq, e.kind, e.at, e.data, a.round_index as abort_round, \
        a.attempt as abort_attempt, a.reason_code as abort_reason, a.detail as abort_detail, a.at as abort_at, \
        d.kind as document_kind, d.digest as document_digest, d.received_at as document_at from events e \
        left join aborts a on a.run = e.run and a.event_seq = e.event_seq \
        left join documents d on d.run = e.run and d.seq = e.event_seq \
        where e.run = $1 and e.event_seq > $2 order by e.event_seq limit $3";

    /// A line of the ledger.
    INSERT_LEDGER_RECORD = "insert into ledger_records (run, round_index, record_hash, prev_record_hash, \
        global_model_hash, line) values ($1, $2, $3, $4, $5, $6)";
    /// Lines from a round on.
    LEDGER_LINES = "select round_index, record_hash, prev_record_hash, global_model_hash, line from ledger_records \
        where run = $1 and round_index >= $2 order by round_index limit $3";

    /// An abort.
    INSERT_ABORT = "insert into aborts (run, event_seq, round_index, attempt, reason_code, detail, at) \
        values ($1, $2, $3, $4, $5, $6, $7)";
    /// One abort.
    ABORT = "select event_seq, round_index, attempt, reason_code, detail, at from aborts where run = $1 and event_seq = $2";
    /// Aborts of a run, newest first.
    ABORTS = "select event_seq, round_index, attempt, reason_code, detail, at from aborts where run = $1 \
        and event_seq < $2 order by event_seq desc limit $3";
    /// News.
    INSERT_EVENT = "insert into events (run, event_seq, kind, at, data) values ($1, $2, $3, $4, $5)";
    /// News after one.
    EVENTS = "select event_seq, kind, at, data from events where run = $1 and event_seq > $2 order by event_seq limit $3";

    /// A document.
    INSERT_DOCUMENT = "insert into documents (run, kind, digest, seq, schema_version, size, body, summary, received_at) \
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    /// What is known of a document without its body.
    DOCUMENT = "select kind, digest, seq, schema_version, size, summary, received_at from documents \
        where run = $1 and kind = $2 and digest = $3";
    /// A document's body.
    DOCUMENT_BODY = "select body from documents where run = $1 and kind = $2 and digest = $3";
    /// Documents before one, newest first.
    DOCUMENTS = "select kind, digest, seq, schema_version, size, summary, received_at from documents \
        where run = $1 and seq < $2 order by seq desc limit $3";
    /// Documents of a kind before one, newest first.
    DOCUMENTS_OF_KIND = "select kind, digest, seq, schema_version, size, summary, received_at from documents \
        where run = $1 and kind = $4 and seq < $2 order by seq desc limit $3";
    /// The newest document of a kind whose summary begins so.
    NEWEST_DOCUMENT = "select digest, body from documents where run = $1 and kind = $2 \
        and substr(summary, 1, length(cast($3 as text))) = $3 order by seq desc limit 1";
    /// Whether bytes with this digest are kept: as a document, a file or a header.
    DIGEST_EXISTS = "select cast(1 as bigint) from documents where digest = $1 \
        union all select cast(1 as bigint) from blobs where digest = $1 \
        union all select cast(1 as bigint) from artifacts where header_digest = $1 limit 1";
    /// A commitment that holds from a round on.
    INSERT_COMMITMENT = "insert into commitments (run, participant, from_round, merkle_root, digest, received_at) \
        values ($1, $2, $3, $4, $5, $6)";
    /// What a participant has committed to for exactly this round.
    COMMITMENT = "select merkle_root, digest from commitments where run = $1 and participant = $2 and from_round = $3";
    /// What holds at a round.
    COMMITMENTS_IN_FORCE = "select c.participant, c.merkle_root from commitments c where c.run = $1 and c.from_round = \
        (select max(d.from_round) from commitments d where d.run = c.run and d.participant = c.participant \
            and d.from_round <= $2)";
    /// Every commitment of a run.
    COMMITMENTS = "select participant, from_round, merkle_root, digest, received_at from commitments where run = $1 \
        order by participant, from_round";

    /// The answer to a commit that named this key before.
    IDEMPOTENCY_KEY = "select request_digest, round_index from idempotency_keys where run = $1 and idempotency_key = $2";
    /// Keeps the answer to a commit.
    INSERT_IDEMPOTENCY_KEY = "insert into idempotency_keys (run, idempotency_key, request_digest, round_index, at) \
        values ($1, $2, $3, $4, $5)";
    /// A contradiction.
    INSERT_FINDING = "insert into findings (run, at, code, round_index, expected, found) values ($1, $2, $3, $4, $5, $6) \
        on conflict do nothing";
    /// Contradictions of a run.
    FINDINGS = "select at, code, round_index, expected, found from findings where run = $1 order by id limit 1000";
    /// Open sessions for a place in a chain.
    OPEN_UPLOADS = "select id, content_hash, expires_at from uploads where state = 'open' and round_index = $1 \
        and coalesce(parent_hash, '') = $2 order by created_at limit 100";

    /// How much there is of everything.
    STOCK = "select (select count(*) from artifacts), \
        (select cast(coalesce(sum(size), 0) as bigint) from artifacts), (select count(*) from runs), \
        (select count(*) from uploads where state = 'open'), \
        (select cast(coalesce(sum(size), 0) as bigint) from blobs), \
        (select cast(coalesce(sum(stored), 0) as bigint) from upload_files)";

    /// A record of what must never be swallowed.
    INSERT_AUDIT = "insert into audit_records (at, code, subject, detail) values ($1, $2, $3, $4)";
}
