/** The needs of a scenario. A scenario without it is not run, and the report says why. */
import type { WalletProfile } from '../wallet/profile';
import { type PayloadPlace, placesOf } from '../wallet/template';
import { type Call, callsOf, playersOf, type Scenario } from './scenario';

/** @returns undefined where the profile has everything */
export function missingFor(scenario: Scenario, profile: WalletProfile): string | undefined {
  for (const kind of playersOf(scenario)) {
    if (kind !== 'unknown' && !profile.players.has(kind)) return `the profile has no player "${kind}"`;
  }
  for (const call of callsOf(scenario)) {
    const missing = missingForCall(call, profile);
    if (missing !== undefined) return missing;
  }
  return undefined;
}

function missingForCall(call: Call, profile: WalletProfile): string | undefined {
  if (call.unsupported) return undefined;
  const action = profile.actions.get(call.action);
  if (action === undefined) return `the profile has no action "${call.action}"`;
  const places = placesOf(action.payload);
  const place = neededPlaces(call).find((needed) => !places.has(needed));
  if (place !== undefined) return `the payload of "${call.action}" has no {{${place}}}`;
  if (call.unknownEnum && action.enumField === null) return `"${call.action}" has no enum_field`;
  if (call.wrongSignature && profile.signing === null) return 'the profile has no signing';
  return undefined;
}

function neededPlaces({ action, original, currency, exponentOff, without = [], win }: Call): PayloadPlace[] {
  return [
    ...without,
    ...(original !== undefined && action === 'credit' ? (['original'] as const) : []),
    ...(currency === undefined ? [] : (['currency'] as const)),
    ...(exponentOff === undefined ? [] : (['exponent'] as const)),
    ...(win === undefined ? [] : (['win'] as const)),
  ];
}
