/**
 * Keeps the reason why no broker names the coordinator of a group. The client (kafkajs 2.2.4) asks each
 * broker, drops each refusal, and throws "Failed to find group coordinator". A missing permission and a
 * cluster without its offsets topic would look alike.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import Broker from 'kafkajs/src/broker';
import Cluster from 'kafkajs/src/cluster';
import { asError } from '../../../lib/errors';

/** The last refusal of the current look-up. */
const lookUps = new AsyncLocalStorage<{ refusal: Error | null }>();

const { findGroupCoordinator } = Broker.prototype;
const { findGroupCoordinatorMetadata } = Cluster.prototype;

/** For every client of this process. */
export function installCoordinatorRefusals(): void {
  Broker.prototype.findGroupCoordinator = async function (group) {
    try {
      return await findGroupCoordinator.call(this, group);
    } catch (error) {
      const lookUp = lookUps.getStore();
      if (lookUp !== undefined) lookUp.refusal = asError(error);
      throw error;
    }
  };
  Cluster.prototype.findGroupCoordinatorMetadata = function (group) {
    const lookUp: { refusal: Error | null } = { refusal: null };
    return lookUps.run(lookUp, async () => {
      try {
        return await findGroupCoordinatorMetadata.call(this, group);
      } catch (error) {
        if (lookUp.refusal === null || !(error instanceof Error)) throw error;
        // The same error object: kafkajs recognizes it by its class.
        if (error !== lookUp.refusal) {
          error.message = `${error.message}: ${lookUp.refusal.message}`;
          error.cause = lookUp.refusal;
        }
        throw error;
      }
    });
  };
}
