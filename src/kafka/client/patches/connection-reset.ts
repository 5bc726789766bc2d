/**
 * Begins each connection to a broker with empty buffers. When a connection is reset, kafkajs 2.2.4 keeps the
 * part of a response that has arrived. It takes the bytes of the next connection for the rest. It then reads
 * text as a length, and waits for gigabytes or ends the process.
 */
import Connection from 'kafkajs/src/network/connection';
import { markAdvertised } from './advertised';

const { connect, disconnect } = Connection.prototype;

/** Size of the length in front of each response. */
const LENGTH_BYTES = 4;

/** For every client of this process. */
export function installConnectionReset(): void {
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
    // The old socket may still receive a response that nothing waits for.
    socket?.removeAllListeners('data');
    return done;
  };
}
