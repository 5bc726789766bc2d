/** Reads the parts of a profile that describe the catalogue and the token endpoint. */
import type { Mapping, Slot, TreeReader } from '../reference-file/reader';
import type { CatalogueProfile, EndpointRequest, TokenProfile } from './profile';
import { anyText, checkEndpoint, checkField, checkHeader } from './profile-checks';
import type { Template } from './template';

/** The readers of the whole profile, which report faults. */
export interface EndpointNodes {
  readonly nodes: TreeReader;
  headers(slot: Slot): ReadonlyMap<string, string>;
  json(slot: Slot): Template | null;
}

const REQUEST_KEYS = ['url', 'method', 'headers', 'body'] as const;

export function readCatalogue(readers: EndpointNodes, slot: Slot): CatalogueProfile | null {
  const keys = [...REQUEST_KEYS, 'timestamp_header', 'limit_parameter', 'items'];
  const { nodes } = readers;
  const node = nodes.mapping(slot, keys);
  if (node === undefined) return null;
  return {
    ...readRequest(readers, node),
    timestampHeader: nodes.requiredText(
      node,
      'timestamp_header',
      checkHeader,
      'Name the header with the time of the request.',
    ),
    limitParameter: nodes.text(node.get('limit_parameter'), anyText) ?? 'limit',
    items: nodes.requiredText(
      node,
      'items',
      checkField,
      'Write the path of the list of games, such as data.games.',
    ),
  };
}

export function readTokenEndpoint(readers: EndpointNodes, slot: Slot): TokenProfile | null {
  const node = readers.nodes.mapping(slot, [...REQUEST_KEYS, 'jwt', 'expiry', 'player_id']);
  if (node === undefined) return null;
  const { nodes } = readers;
  return {
    ...readRequest(readers, node),
    jwt: nodes.text(node.get('jwt'), checkField) ?? null,
    expiry: nodes.text(node.get('expiry'), checkField) ?? 'exp',
    playerId: nodes.text(node.get('player_id'), checkField) ?? 'external_player_id',
  };
}

function readRequest(readers: EndpointNodes, node: Mapping): EndpointRequest {
  const { nodes } = readers;
  return {
    url: nodes.requiredText(node, 'url', checkEndpoint, 'Write the whole address of the endpoint.'),
    method: nodes.word(node.get('method'), ['GET', 'POST'] as const) ?? 'GET',
    headers: readers.headers(node.get('headers')),
    body: readers.json(node.get('body')),
  };
}
