/**
 * The rules of the reference data file: the keys and values that it must have and must not have
 * (docs/rules.md, C1-C9).
 *
 * schemas/reference.schema.json describes the same structure for editors.
 * test/unit/reference-file/reference-file.test.ts compares the two.
 */
import {
  type BrandEntry,
  type ConnectionEntry,
  feedIdOf,
  type GameEntry,
  type OperatorEntry,
  type ReferenceDocument,
} from '../domain/reference';
import { quoted } from '../lib/printable';
import { type Check, checkBrand, checkGame, checkName, checkTopic } from './checks';
import { type Mapping, type Slot, TreeReader } from './reader';
import type { FaultReport, FilePlace } from './report';
import type { Tree } from './tree';

/** The value of the key `brands` of a connection that carries several brands. */
export const SEVERAL = 'several';
const TRANSPORTS = ['kafka', 'webhook'] as const;
type Transport = (typeof TRANSPORTS)[number];

/** Ids of one kind, each with the offset of its first place. */
type Ids = Map<string, number>;

/** Reads one document. The result is valid only where no fault was reported. */
export class DocumentReader {
  private readonly nodes: TreeReader;
  private readonly operatorIds: Ids = new Map();
  private readonly connectionIds: Ids = new Map();
  private readonly topics = new TopicSharing();

  constructor(
    private readonly faults: FaultReport,
    private readonly warnings: FaultReport,
  ) {
    this.nodes = new TreeReader(faults);
  }

  read(tree: Tree): ReferenceDocument {
    const top = this.nodes.mapping({ path: '', at: tree.at, tree }, ['operators']);
    if (top === undefined) return { operators: [] };
    const list = this.nodes.required(top, 'operators', 'List the operators, or write "operators: []".');
    const operators = this.nodes.list(list, (item) => this.operator(item));
    this.topics.warn(this.warnings);
    return { operators };
  }

  private operator(slot: Slot): OperatorEntry | undefined {
    const node = this.nodes.mapping(slot, ['id', 'active', 'connections', 'brands', 'catalogue']);
    if (node === undefined) return undefined;
    const id = this.id(node, 'operator', checkName, this.operatorIds);
    const active = this.nodes.flag(node.get('active'));
    const brandIds: Ids = new Map();
    const brands = this.nodes.list(node.get('brands'), (item) => this.brand(item, brandIds));
    // A brand that could not be read may be the one that a connection names.
    const known = brands.length === itemCount(node.get('brands')) ? brandIds : undefined;
    const connections = this.nodes.list(node.get('connections'), (item) => this.connection(item, id, known));
    const gameIds: Ids = new Map();
    const catalogue = this.nodes.list(node.get('catalogue'), (item) => this.game(item, gameIds));
    if (connections.length === 0) {
      const message = 'The operator has no connections, so none of its events are read.';
      this.warnings.add(node, message, 'Add a connection when the operator begins to send.');
    }
    return id === undefined ? undefined : { id, active, connections, brands, catalogue };
  }

  /** @param brandIds the brands that the operator lists; undefined where some of them could not be read */
  private connection(
    slot: Slot,
    operatorId: string | undefined,
    brandIds: Ids | undefined,
  ): ConnectionEntry | undefined {
    const node = this.nodes.mapping(slot, ['id', 'transport', 'topic', 'brands', 'brand', 'feed', 'test']);
    if (node === undefined) return undefined;
    const id = this.id(node, 'connection', checkName, this.connectionIds);
    const remedy = 'Write "transport: kafka" or "transport: webhook".';
    const transport = this.nodes.word(this.nodes.required(node, 'transport', remedy), TRANSPORTS);
    const topic = this.topic(node, transport);
    const brand = this.onlyBrand(node, brandIds);
    const feed = this.feed(node.get('feed'), operatorId);
    const isTest = this.nodes.flag(node.get('test'), false);
    if (id === undefined || transport === undefined) return undefined;
    if (topic !== undefined && operatorId !== undefined) {
      const { at, path } = node.get('topic');
      this.topics.add(topic, { id, operatorId, at, path });
    }
    return {
      id,
      transport,
      ...(topic !== undefined && { topic }),
      ...(brand !== undefined && { brand }),
      ...(feed !== undefined && { feed }),
      ...(isTest && { test: true }),
    };
  }

  private topic(node: Mapping, transport: Transport | undefined): string | undefined {
    const topic = node.get('topic');
    if (transport === 'kafka' && topic.tree === undefined) {
      this.faults.add(node, 'The kafka connection has no topic.', 'Add the topic that the connection reads.');
    } else if (transport === 'webhook' && topic.tree !== undefined) {
      const remedy = 'Remove topic, or write "transport: kafka".';
      this.faults.add(topic, 'A webhook connection reads no topic.', remedy);
    }
    return this.nodes.text(topic, checkTopic);
  }

  /** The one brand that a connection carries; undefined where it carries several. */
  private onlyBrand(node: Mapping, brandIds: Ids | undefined): string | undefined {
    const several = node.get('brands');
    const only = node.get('brand');
    const remedy =
      'Write "brands: several" if events name their brand, or "brand: <id>" if all belong to one brand.';
    if (several.tree === undefined && only.tree === undefined) {
      this.faults.add(node, 'The connection has neither brands nor brand.', remedy);
    } else if (several.tree !== undefined && only.tree !== undefined) {
      this.faults.add(only, 'The connection has both brands and brand.', remedy);
    }
    this.nodes.word(several, [SEVERAL]);
    const brand = this.nodes.text(only, checkBrand);
    if (brand !== undefined && brandIds !== undefined && !brandIds.has(brand)) {
      const addIt = "Add it to the operator's brands, or use one of them.";
      this.faults.add(only, `The operator lists no brand ${quoted(brand)}.`, addIt);
    }
    return brand;
  }

  private feed(slot: Slot, operatorId: string | undefined): string | undefined {
    const feed = this.nodes.text(slot, checkName);
    if (feed !== undefined && feed === operatorId) {
      const other = quoted(feedIdOf(operatorId, feed));
      const remedy = "Remove feed to use the operator's own feed, or rename the other feed.";
      this.warnings.add(slot, `This is another feed than the operator's own: ${other}.`, remedy);
    }
    return feed;
  }

  private brand(slot: Slot, seen: Ids): BrandEntry | undefined {
    const node = this.nodes.mapping(slot, ['id', 'active', 'games', 'min_bet']);
    if (node === undefined) return undefined;
    const id = this.id(node, 'brand', checkBrand, seen);
    const active = this.nodes.flag(node.get('active'));
    const games = this.games(node.get('games'));
    const minBet = this.minBet(node.get('min_bet'));
    return id === undefined ? undefined : { id, active, games, minBet };
  }

  private games(slot: Slot): BrandEntry['games'] {
    const node = this.nodes.mapping(slot, ['deny', 'allow']);
    if (node === undefined) return { deny: [] };
    const deny = this.nodes.list(node.get('deny'), (item) => this.nodes.text(item, checkGame));
    const list = node.get('allow');
    if (list.tree === undefined) return { deny };
    const denied = new Set(deny);
    const allow = this.nodes.list(list, (item) => {
      const game = this.nodes.text(item, checkGame);
      if (game !== undefined && denied.has(game)) {
        const message = `The game ${quoted(game)} is also denied, and the denial takes precedence.`;
        this.warnings.add(item, message, 'Remove it from one of the two lists.');
      }
      return game;
    });
    if (itemCount(list) === 0) {
      const remedy = 'Remove the key to allow every game, or list the allowed ones.';
      this.warnings.add(list, 'The empty list allows no game at all.', remedy);
    }
    return { deny, allow };
  }

  private minBet(slot: Slot): BrandEntry['minBet'] {
    return this.nodes.currencyAmounts(slot, (value) =>
      this.warnings.add(value, 'A minimum of zero has no effect.', 'Remove or raise it.'),
    );
  }

  private game(slot: Slot, seen: Ids): GameEntry | undefined {
    const node = this.nodes.mapping(slot, ['id', 'active']);
    if (node === undefined) return undefined;
    const id = this.id(node, 'game', checkGame, seen);
    const active = this.nodes.flag(node.get('active'));
    return id === undefined ? undefined : { id, active };
  }

  /** @param seen the earlier ids, all of which must differ from this one; the method adds this id */
  private id(node: Mapping, what: string, check: Check, seen: Ids): string | undefined {
    const slot = this.nodes.required(node, 'id', `Give the ${what} an id.`);
    const id = this.nodes.text(slot, check);
    if (id === undefined) return undefined;
    const first = seen.get(id);
    if (first === undefined) {
      seen.set(id, slot.at);
      return id;
    }
    const scope = what === 'connection' ? ' Connection ids are unique over all operators.' : '';
    const message = `The ${what} id ${quoted(id)} is already used on line ${this.faults.lineOf(first)}.${scope}`;
    this.faults.add(slot, message, 'Give one of the two another id, or remove it.');
    return id;
  }
}

/** The number of items of a list; 0 without a value. Undefined where the value is no list. */
function itemCount({ tree }: Slot): number | undefined {
  if (tree === undefined) return 0;
  return tree.kind === 'list' ? tree.items.length : undefined;
}

// --- topics

/** A connection that is bound to a topic, and the place of its `topic` key. */
interface Binding extends FilePlace {
  readonly id: string;
  readonly operatorId: string;
}

const SHOWN_IDS = 5;

/** Finds topics that several connections share. Sharing is valid, but has to be intended. */
class TopicSharing {
  private readonly bindings = new Map<string, Binding[]>();

  add(topic: string, binding: Binding): void {
    const bound = this.bindings.get(topic);
    if (bound === undefined) this.bindings.set(topic, [binding]);
    else bound.push(binding);
  }

  /**
   * Adds one warning for each shared topic. Its place is the first connection of a second operator, if there
   * is one, else the second connection.
   */
  warn(warnings: FaultReport): void {
    for (const [topic, bound] of this.bindings) {
      const [first, second] = bound;
      if (first === undefined || second === undefined) continue;
      const shown = bound.slice(0, SHOWN_IDS).map((binding) => binding.id);
      const ids = bound.length > SHOWN_IDS ? `${shown.join(', ')} and more` : shown.join(', ');
      const shared = `The topic ${topic} is shared by the connections ${ids}: the header connection-id of a record selects its connection.`;
      const stranger = bound.find((binding) => binding.operatorId !== first.operatorId);
      if (stranger === undefined) {
        const remedy = 'Give each connection its own topic, or make sure that every record has the header.';
        warnings.add(second, shared, remedy);
      } else {
        const message = `DANGER: ${shared} ${first.operatorId} and ${stranger.operatorId} are different operators, and the sender sets the header: each can send in the name of the other.`;
        const remedy = 'Give each operator its own topics, each with its own ACL.';
        warnings.add(stranger, message, remedy);
      }
    }
  }
}
