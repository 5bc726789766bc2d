/** Finds topics that several connections share. Sharing is valid, but has to be intended. */
import type { FaultReport, FilePlace } from './report';

/** A connection that is bound to a topic, and the place of its `topic` key. */
interface Binding extends FilePlace {
  readonly id: string;
  readonly operatorId: string;
}

const SHOWN_IDS = 5;

export class TopicSharing {
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
