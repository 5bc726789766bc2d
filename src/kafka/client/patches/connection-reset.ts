/**
 * Lets kafkajs 2.2.4 begin each connection to a broker with nothing of the one before it. It keeps what it has of an answer that broke off in the middle, as where a connection
 * is reset, and takes what the next connection brings for the rest: what then stands where a length should be text, and it waits for gigabytes, or ends the process.
 */
import Connection from 'kafkajs/src/network/connection';
import { markAdvertised } from './advertised';

const { connect, disconnect } = Connection.prototype;

/** Of the length that stands in front of each answer. */
const LENGTH_BYTES = 4;

/** For every client of this process. */
export function beginConnectionsClean(): void {
  Connection.prototype.connect = function () {
    if (!this.isConnected()) {
      this.chunks = [];
      this.bytesBuffered = 0;
      this.bytesNeeded = LENGTH_BYTES;
    }
    return connect.call(this).catch((error: unknown) => {
      throw markAdvertised(this, error);
    });
  };
  Connection.prototype.disconnect = async function () {
    const { socket } = this;
    const done = await disconnect.call(this);
    // It may still bring an answer that nobody waits for.
    socket?.removeAllListeners('data');
    return done;
  };
}
