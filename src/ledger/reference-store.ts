/**
 * The reference data in the store. A document is applied as a whole, as a new version, and is read compiled
 * (docs/rules.md, C6-C9).
 */
import {
  compileReference,
  feedIdOf,
  isBefore,
  isSameVersion,
  type Numbers,
  type Reference,
  type ReferenceDocument,
  type ReferenceVersion,
} from '../domain/reference';
import { messageOf } from '../lib/errors';
import { arrays } from '../postgres/binary-format';
import type { Row } from '../postgres/pipeline';
import { inTransaction, type Session, type Store } from '../postgres/transaction';
import { type Change, describeChanges } from '../reference-file/changes';
import { fromDocumentJson, toDocumentJson } from '../reference-file/stored';
import { LostReference, UnreadableReference } from './failures';
import { referenceInForce } from './statements/find';

const EMPTY: ReferenceDocument = { operators: [] };

/** Version 0 where none was ever applied. */
export interface StoredReference extends ReferenceVersion {
  readonly document: ReferenceDocument;
}

/** The columns that `storedIn` reads. */
const SELECTED =
  'select version, extract(epoch from applied_at), document from promo_store.reference_versions';

const CURRENT = { name: 'reference_current', text: `${SELECTED} order by version desc limit 1` };

async function readCurrent(session: Session): Promise<StoredReference> {
  const [row] = await session.query(CURRENT);
  return storedIn(row);
}

/** @throws UnreadableDocument where the document breaks the rules of this version */
function storedIn(row: Row | undefined): StoredReference {
  if (row === undefined) return { version: 0, appliedAt: '', document: EMPTY };
  const [version, appliedAt, document] = row;
  return {
    version: Number(version),
    appliedAt: appliedAt ?? '',
    document: fromDocumentJson(JSON.parse(document ?? '')),
  };
}

const ONE_VERSION = { name: 'reference_of_version', text: `${SELECTED} where version = $1` };

/**
 * Reads a version of the reference data; without a number, the version in force.
 *
 * @returns undefined where this version does not exist, or no version at all
 * @throws UnreadableDocument where the document breaks the rules of this version
 */
export async function readReferenceVersion(
  store: Store,
  version: number | undefined,
): Promise<StoredReference | undefined> {
  return inTransaction(store, async (session) => {
    const [row] =
      version === undefined ? await session.query(CURRENT) : await session.query(ONE_VERSION, [version]);
    return row === undefined ? undefined : storedIn(row);
  });
}

const HISTORY = {
  name: 'reference_history',
  text: `select version, to_char(applied_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), operators
from promo.reference_versions order by version desc`,
};

/** All versions, the newest first. */
export async function readReferenceHistory(
  store: Store,
): Promise<{ version: number; appliedAt: string; operators: number }[]> {
  const rows = await inTransaction(store, (session) => session.query(HISTORY));
  return rows.map(([version, appliedAt, operators]) => ({
    version: Number(version),
    appliedAt: appliedAt ?? '',
    operators: Number(operators),
  }));
}

const NUMBERS = {
  name: 'reference_numbers',
  text: `select 'feed', f.operator_id, f.feed_id, f.feed_no from promo_store.feeds f
union all select 'connection', '', c.connection_id, c.connection_no from promo_store.connections c
union all select 'brand', o.operator_id, b.brand_id, b.brand_no from promo_store.brands b join promo_store.operators o using (operator_no)`,
};

/**
 * Reads and compiles the reference data in force. Returns `loaded` itself where it is still in force.
 * @throws LostReference, UnreadableReference
 */
async function loadReference(store: Store, loaded: Reference | undefined): Promise<Reference> {
  return inTransaction(store, async (session) => {
    const inForce = await referenceInForce(session);
    if (loaded !== undefined && isSameVersion(loaded, inForce)) return loaded;
    if (loaded !== undefined && isBefore(inForce, loaded))
      throw new LostReference(
        `the store has lost version ${loaded.version} of the reference data, and now has ${inForce.version}: apply it again, or restart this process where ${inForce.version} is right`,
      );
    const [current] = await session.query(CURRENT);
    const numbers = new Map<string, number>();
    for (const [type, operatorId, id, no] of await session.query(NUMBERS)) {
      numbers.set(JSON.stringify([type, operatorId, id]), Number(no));
    }
    try {
      const stored = storedIn(current);
      return compileReference(stored.document, stored, numbersIn(numbers));
    } catch (error) {
      const what = messageOf(error);
      throw new UnreadableReference(`the reference data in force cannot be read: ${what}`, { cause: error });
    }
  });
}

function numbersIn(numbers: ReadonlyMap<string, number>): Numbers {
  const find = (type: string, operatorId: string, id: string): number => {
    const no = numbers.get(JSON.stringify([type, operatorId, id]));
    if (no === undefined) throw new Error(`the store has no number for the ${type} ${id}`);
    return no;
  };
  return {
    feed: (operatorId, feedId) => find('feed', operatorId, feedId),
    connection: (connectionId) => find('connection', '', connectionId),
    brand: (operatorId, brandId) => find('brand', operatorId, brandId),
  };
}

/** Another `reference apply` waits for this lock; readers and workers do not. */
const LOCK_VERSIONS = {
  name: 'lock_reference_versions',
  text: 'lock table promo_store.reference_versions in share row exclusive mode',
};

const NAME_STATEMENTS = {
  operators: {
    name: 'name_operators',
    text: 'insert into promo_store.operators (operator_id) select distinct unnest($1::text[]) on conflict do nothing',
  },
  feeds: {
    name: 'name_feeds',
    text: `insert into promo_store.feeds (operator_no, operator_id, feed_id)
select distinct o.operator_no, n.operator_id, n.feed_id from unnest($1::text[], $2::text[]) n (operator_id, feed_id)
join promo_store.operators o using (operator_id) on conflict do nothing`,
  },
  connections: {
    name: 'name_connections',
    text: 'insert into promo_store.connections (connection_id) select distinct unnest($1::text[]) on conflict do nothing',
  },
  brands: {
    name: 'name_brands',
    text: `insert into promo_store.brands (operator_no, brand_id)
select distinct o.operator_no, n.brand_id from unnest($1::text[], $2::text[]) n (operator_id, brand_id)
join promo_store.operators o using (operator_id) on conflict do nothing`,
  },
};

const ADD_VERSION = {
  name: 'add_reference_version',
  text: 'insert into promo_store.reference_versions (version, document) values ($1, $2)',
};

const FORMER_CONNECTIONS = {
  name: 'former_connections',
  text: 'select connection_id from promo_store.connections where connection_id = any($1::text[])',
};

/** Every version is kept, so a connection that was removed has its mark in an older one. */
const OTHER_MARKS = {
  name: 'other_test_marks',
  text: `select distinct c ->> 'id' from unnest($1::text[], $2::boolean[]) n (id, is_test), promo_store.reference_versions v,
  jsonb_path_query(v.document::jsonb, '$.operators[*].connections[*]') c
where c ->> 'id' = n.id and coalesce((c ->> 'test')::boolean, false) <> n.is_test order by 1`,
};

/** A connection for tests would become a real one, or the other way round (docs/rules.md, C12). */
export class TestMarkChanged extends Error {
  override readonly name = 'TestMarkChanged';
}

/**
 * Reads older versions only where a connection has another mark, or was removed before. They are many and
 * large, so a new connection must not wait for them.
 * @throws TestMarkChanged
 */
async function refuseOtherMarks(
  session: Session,
  before: ReferenceDocument,
  after: ReferenceDocument,
): Promise<void> {
  const marks = (document: ReferenceDocument) =>
    document.operators.flatMap(({ connections }) =>
      connections.map(({ id, test = false }) => ({ id, test })),
    );
  const known = new Map(marks(before).map(({ id, test }) => [id, test]));
  const unknown = marks(after).filter(({ id, test }) => known.get(id) !== test);
  if (unknown.length === 0) return;
  const former = await session.query(FORMER_CONNECTIONS, [unknown.map(({ id }) => id)]);
  const formerIds = new Set(former.map(([id]) => id));
  const returning = unknown.filter(({ id }) => formerIds.has(id));
  if (returning.length === 0) return;
  const rows = await session.query(OTHER_MARKS, [
    returning.map(({ id }) => id),
    arrays.bool(returning.map(({ test }) => test)),
  ]);
  if (rows.length === 0) return;
  throw new TestMarkChanged(
    `the mark "test" of ${rows.map(([id]) => id).join(', ')} differs from that of an earlier version. A connection keeps it for good, so that no test counts later. Give the connection another id`,
  );
}

export interface Applied {
  /** The version in force afterwards. */
  readonly version: number;
  /** The differences from the previous version. Empty where nothing was stored. */
  readonly changes: readonly Change[];
}

/**
 * Applies a document as a whole: creates one new version, or none where nothing changes.
 *
 * @param approve receives the changes before anything is stored; false leaves the store unchanged
 * @throws TestMarkChanged
 */
export async function applyReference(
  store: Store,
  document: ReferenceDocument,
  approve: (changes: readonly Change[]) => boolean,
): Promise<Applied> {
  return inTransaction(store, async (session) => {
    await session.write([LOCK_VERSIONS]);
    const before = await readCurrent(session);
    const changes = describeChanges(before.document, document);
    await refuseOtherMarks(session, before.document, document);
    const same = before.version > 0 && changes.length === 0;
    if (same || !approve(changes)) return { version: before.version, changes };
    await giveNumbers(session, document);
    const version = before.version + 1;
    await session.query(ADD_VERSION, [version, JSON.stringify(toDocumentJson(document))]);
    return { version, changes };
  });
}

async function giveNumbers(session: Session, { operators }: ReferenceDocument): Promise<void> {
  const feeds = operators.flatMap(({ id, connections }) =>
    [feedIdOf(id, undefined), ...connections.map(({ feed, test }) => feedIdOf(id, feed, test))].map(
      (feedId) => ({ id, feedId }),
    ),
  );
  const brands = operators.flatMap(({ id, brands }) => brands.map((brand) => ({ id, brandId: brand.id })));
  await session.query(NAME_STATEMENTS.operators, [operators.map(({ id }) => id)]);
  await session.query(NAME_STATEMENTS.feeds, [feeds.map(({ id }) => id), feeds.map(({ feedId }) => feedId)]);
  await session.query(NAME_STATEMENTS.connections, [
    operators.flatMap((o) => o.connections.map(({ id }) => id)),
  ]);
  await session.query(NAME_STATEMENTS.brands, [
    brands.map(({ id }) => id),
    brands.map(({ brandId }) => brandId),
  ]);
}

/** Caches the compiled reference data. Concurrent callers share one load. */
export function makeReferences(store: Store): {
  current(): Promise<Reference>;
  reload(): Promise<Reference>;
} {
  let loaded: Reference | undefined;
  let loading: Promise<Reference> | undefined;
  const reload = () => {
    loading ??= loadReference(store, loaded)
      .then((reference) => {
        loaded = reference;
        return reference;
      })
      .finally(() => {
        loading = undefined;
      });
    return loading;
  };
  return { current: async () => loaded ?? reload(), reload };
}
