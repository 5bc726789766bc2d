/** The parts of kafkajs 2.2.4 that we reach into. The version is pinned; a test notices when they move. */
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
  /** Of codes that it does not know, too. */
  export function createErrorFromCode(code: number): Error & { readonly type: string };
}

declare module 'kafkajs/src/protocol/requests/offsetCommit/v5/response' {
  interface Answer {
    readonly responses: readonly {
      readonly topic: string;
      readonly partitions: readonly { readonly partition: number; readonly errorCode: number }[];
    }[];
  }
  /** @throws the error of the first partition that has one */
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
  /** @throws the error of the first topic that has one, or of the first partition */
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
  class Broker {
    findGroupCoordinator(group: { readonly groupId: string }): Promise<unknown>;
  }
  export = Broker;
}

declare module 'kafkajs/src/cluster' {
  class Cluster {
    /** Asks each broker in turn. @throws KafkaJSGroupCoordinatorNotFound, without the reason */
    findGroupCoordinatorMetadata(group: { readonly groupId: string }): Promise<unknown>;
    /** Asks a broker. */
    metadata(about: { readonly topics: readonly string[] }): Promise<{ readonly clusterId?: string | null }>;
    findTopicPartitionMetadata(
      topic: string,
    ): readonly { readonly partitionId: number; readonly leader: number }[];
    /** Where partitions begin or end, by topic. */
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
    /** A request, and how its answer is read. */
    interface Protocol {
      readonly request: { readonly apiName: string };
      readonly response: { readonly decode: (bytes: Buffer) => Promise<unknown> };
    }
  }
  class Connection {
    readonly socket: import('node:net').Socket | undefined;
    /** What came of an answer so far. */
    chunks: Buffer[];
    bytesBuffered: number;
    /** So many make the next step: the length of an answer, and then all of it. */
    bytesNeeded: number;
    /** Address of the broker. */
    readonly broker: string;
    /** That of the client: all its connections have the same. */
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
    /** How long a fetch waits for records, and so the client where it has nothing to fetch. */
    readonly maxWaitTime: number;
    joinAndSync(): Promise<void>;
    /** What a broker gives of the member's partitions, one batch each. */
    fetch(nodeId: string): Promise<unknown[]>;
    /** @throws where the client has no way to go on by itself */
    recoverFromFetch(error: Error): Promise<void>;
    /** Sends a heartbeat where the last one is `interval` ms ago. @throws where the group rebalances, or no longer knows the member */
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
    writeInt16(value: number): this;
    writeInt32(value: number): this;
    writeString(value: string | null): this;
    /** With their length in front, 32 bits. */
    writeBytes(value: Buffer): this;
  }
  export = Encoder;
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
      readonly response: unknown;
    }
  }
  const produce: { protocol: (about: { version: number }) => (options: produce.Options) => produce.Made };
  export = produce;
}

declare module 'kafkajs/src/network/socketFactory' {
  /** The client's own sockets, for whoever only wants to know of them. */
  const makeSocketFactory: () => import('kafkajs').ISocketFactory;
  export = makeSocketFactory;
}
