/**
 * Installs the patches of kafkajs 2.2.4 that change every client of this process. README.md has a row for
 * each patch, and names the two that their callers use.
 */
import makeSocketFactory from 'kafkajs/src/network/socketFactory';
import type { Decompress } from '../../protocol/record-batch-reader';
import { installConnectionReset } from './connection-reset';
import { installCoordinatorRefusals } from './coordinator-refusals';
import { installFetchDecoder } from './fetch';
import { installHeartbeats } from './heartbeats';
import { installJoining } from './joining';
import { installLeaders } from './leaders';
import { installProduceEncoder } from './produce';
import { installRefusalTexts } from './refusal-texts';
import { installRequestTimers } from './request-timers';
import { installThrottleReports } from './throttling';

/** A second call changes nothing: each patch keeps the original function from when its module was loaded. */
export function installPatches(decompress: Decompress): void {
  installConnectionReset();
  installRequestTimers();
  installFetchDecoder(decompress);
  installLeaders();
  installThrottleReports();
  installJoining();
  installHeartbeats();
  installProduceEncoder();
  installRefusalTexts();
  installCoordinatorRefusals();
}

export { makeSocketFactory };
