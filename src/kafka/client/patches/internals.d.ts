/** The parts of kafkajs 2.2.4 that we reach into. The version is pinned; a test fails when they move. */
declare module 'kafkajs/src/protocol/decoder' {
  class Decoder {
    constructor(buffer: Buffer);
    readInt16(): number;
    readInt32(): number;
    readInt64(): { toString(): string };
    readString(): string;
    readBytes(length: number): Buffer;
    readArray<T>(read: () => T): T[];
  }
  export = Decoder;
}

declare module 'kafkajs/src/protocol/requests/fetch/v11/response' {
  const response: { decode: (bytes: Buffer) => unknown };
  export = response;
}

declare module 'kafkajs/src/protocol/error' {
  /** Also makes an error for an unknown code. */
  export function createErrorFromCode(code: number): Error & { readonly type: string };
}

declare module 'kafkajs/src/protocol/requests/offsetCommit/v5/response' {
  interface Answer {
    readonly responses: readonly {
      readonly topic: string;
      readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[];
    }[];
  }
  /** @throws the error of the first partition with one */
  const response: { parse: (answer: Answer) => Promise<Answer> };
  export = response;
}

declare module 'kafkajs/src/protocol/requests/metadata/v6/response' {
  interface Answer {
    readonly topicMetadata: readonly {
      readonly topic: string;
      readonly partitionMetadata: readonly {
        readonly partitionId: number;
        partitionErrorCode: number;
        leader: number;
      }[];
    }[];
  }
  /** @throws the error of the first topic or partition with one */
  const response: { parse: (answer: Answer) => Promise<Answer> };
  export = response;
}

declare module 'kafkajs/src/protocol/requests/createTopics/v3/response' {
  interface Answer {
    readonly topicErrors: readonly {
      readonly topic: string;
      readonly errorCode: number;
      readonly errorMessage: string | null;
    }[];
  }
  /** @throws KafkaJSAggregateError */
  const response: { parse: (answer: Answer) => Promise<Answer> };
  export = response;
}

declare module 'kafkajs/src/broker' {
  import type produce from 'kafkajs/src/protocol/requests/produce';

  class Broker {
    findGroupCoordinator(group: { readonly groupId: string }): Promise<unknown>;
    produce(options: produce.Options): Promise<{
      readonly topics: readonly {
        readonly topicName: string;
        readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[];
      }[];
    }>;
  }
  export = Broker;
}

declare module 'kafkajs/src/cluster' {
  import type Broker from 'kafkajs/src/broker';

  class Cluster {
    /** Asks each broker in turn. @throws KafkaJSGroupCoordinatorNotFound, without the reason */
    findGroupCoordinatorMetadata(group: { readonly groupId: string }): Promise<unknown>;
    /** Sends a metadata request to a broker. */
    metadata(about: { readonly topics: readonly string[] }): Promise<{ readonly clusterId?: string | null }>;
    findTopicPartitionMetadata(
      topic: string,
    ): readonly { readonly partitionId: number; readonly leader: number }[];
    readonly brokerPool: {
      /** The last metadata; another object after each request. */
      readonly metadata: {
        readonly topicMetadata: readonly {
          readonly topic: string;
          readonly partitionMetadata: readonly { readonly partitionId: number; readonly leader: number }[];
        }[];
      } | null;
    };
    findBroker(about: { readonly nodeId: number }): Promise<Broker>;
    /** Adds topics to those whose metadata is requested. */
    addMultipleTargetTopics(topics: readonly string[]): Promise<void>;
    refreshMetadata(): Promise<void>;
    /** Requests the metadata where it is too old, or lacks a topic. */
    refreshMetadataIfNecessary(): Promise<void>;
    /** First or last offsets of partitions, by topic. */
    fetchTopicsOffset(
      wanted: readonly {
        readonly topic: string;
        readonly partitions: readonly { readonly partition: number }[];
      }[],
    ): Promise<{ topic: string; partitions: { partition: number; offset: string }[] }[]>;
  }
  export = Cluster;
}

declare module 'kafkajs/src/network/connection' {
  namespace Connection {
    /** A request, and the decoder of its response. */
    interface Protocol {
      readonly request: { readonly apiName: string };
      readonly response: { readonly decode: (bytes: Buffer) => Promise<unknown> };
    }
  }
  class Connection {
    readonly socket: import('node:net').Socket | undefined;
    /** The received part of a response. */
    chunks: Buffer[];
    bytesBuffered: number;
    /** Bytes needed for the next step: first the length of a response, then all of it. */
    bytesNeeded: number;
    /** Address of the broker. */
    readonly broker: string;
    /** The client's factory: all connections of a client share it. */
    readonly socketFactory: object;
    isConnected(): boolean;
    connect(): Promise<boolean>;
    disconnect(): Promise<boolean>;
    send(protocol: Connection.Protocol): Promise<unknown>;
  }
  export = Connection;
}

declare module 'kafkajs/src/consumer/consumerGroup' {
  import type Cluster from 'kafkajs/src/cluster';

  class ConsumerGroup {
    readonly cluster: Cluster;
    readonly seekOffset: Map<string, string>;
    readonly sessionTimeout: number;
    /** Time that a fetch waits for records. The client waits as long when it has nothing to fetch. */
    readonly maxWaitTime: number;
    joinAndSync(): Promise<void>;
    /** Fetches the member's partitions from a broker, one batch each. */
    fetch(nodeId: string): Promise<unknown[]>;
    /** @throws if the client cannot recover by itself */
    recoverFromFetch(error: Error): Promise<void>;
    /**
     * Sends a heartbeat if the last one is `interval` ms ago.
     *
     * @throws if the group rebalances, or has removed the member
     */
    heartbeat(options: { readonly interval: number }): Promise<void>;
  }
  export = ConsumerGroup;
}

declare module 'kafkajs/src/protocol/requests/offsetFetch/v4/response' {
  interface Committed {
    readonly responses: readonly {
      readonly topic: string;
      readonly partitions: readonly {
        readonly partition: number;
        readonly offset: string;
        readonly metadata: string | null;
        readonly errorCode: number;
      }[];
    }[];
  }
  const response: { decode: (bytes: Buffer) => Promise<Committed> };
  export = response;
}

declare module 'kafkajs/src/protocol/encoder' {
  class Encoder {
    constructor(initialBytes?: number);
    /** The bytes so far, and room for more. */
    buf: Buffer;
    /** The end of the bytes so far. */
    offset: number;
    /** The bytes so far. */
    readonly buffer: Buffer;
    /** Their number. */
    size(): number;
    /** Copies the bytes of another encoder. */
    writeEncoder(value: Encoder): this;
    writeInt16(value: number): this;
    writeInt32(value: number): this;
    writeString(value: string | null): this;
    /** Writes the length in 32 bits, then the bytes. */
    writeBytes(value: Buffer): this;
  }
  export = Encoder;
}

declare module 'kafkajs/src/protocol/request' {
  import type Encoder from 'kafkajs/src/protocol/encoder';

  /** Writes the header of a request in front of it, and its length in front of both. */
  const createRequest: (about: {
    readonly correlationId: number;
    readonly clientId: string;
    readonly request: {
      readonly apiKey: number;
      readonly apiVersion: number;
      readonly encode: () => Promise<Encoder>;
    };
  }) => Promise<Encoder>;
  export = createRequest;
}

declare module 'kafkajs/src/protocol/requests/produce' {
  import type { Message } from 'kafkajs';
  import type Encoder from 'kafkajs/src/protocol/encoder';

  namespace produce {
    interface Options {
      readonly acks: number;
      readonly timeout: number;
      readonly topicData: readonly {
        readonly topic: string;
        readonly partitions: readonly { readonly partition: number; readonly messages: readonly Message[] }[];
      }[];
    }
    interface Made {
      readonly request: { readonly encode: () => Promise<Encoder> };
      readonly response: {
        readonly decode: (bytes: Buffer) => Promise<unknown>;
        /** @throws the error of the first partition with one */
        readonly parse: (answer: unknown) => Promise<unknown>;
      };
    }
  }
  const produce: { protocol: (about: { version: number }) => (options: produce.Options) => produce.Made };
  export = produce;
}

declare module 'kafkajs/src/network/socketFactory' {
  /** Makes the client's own sockets, for a factory that only observes them. */
  const makeSocketFactory: () => import('kafkajs').ISocketFactory;
  export = makeSocketFactory;
}

declare module 'kafkajs/src/network/requestQueue' {
  class RequestQueue {
    constructor(options: {
      readonly maxInFlightRequests: number | null;
      readonly requestTimeout: number;
      readonly logger: { readonly debug: () => void };
    });
    /** Requests that wait, because too many are in flight or the broker throttles. */
    readonly pending: readonly unknown[];
    /** @param ms time for which the broker throttles */
    maybeThrottle(ms: number): void;
    push(request: {
      readonly entry: { readonly correlationId: number };
      readonly expectResponse: boolean;
      readonly sendRequest: () => void;
    }): void;
    /** Handles a response. */
    fulfillRequest(response: {
      readonly correlationId: number;
      readonly payload: unknown;
      readonly size: number;
    }): void;
    /** Sets the timer of the next check, unless it is set. */
    scheduleCheckPendingRequests(): void;
    destroy(): void;
  }
  export = RequestQueue;
}
