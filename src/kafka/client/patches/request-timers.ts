/**
 * Sets the timer of a connection's request queue only while a request waits.
 *
 * kafkajs 2.2.4 sets it at each response, and again when it fires. So every connection checks an empty queue
 * each millisecond. The delay is negative, and Node 24 warns of that (tulios/kafkajs#1751).
 */
import RequestQueue from 'kafkajs/src/network/requestQueue';

const { scheduleCheckPendingRequests } = RequestQueue.prototype;

/** For every client of this process. */
export function installRequestTimers(): void {
  RequestQueue.prototype.scheduleCheckPendingRequests = function () {
    // A request that has to wait later sets the timer itself, in `push`.
    if (this.pending.length > 0) scheduleCheckPendingRequests.call(this);
  };
}
