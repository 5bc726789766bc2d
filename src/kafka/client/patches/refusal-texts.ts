/**
 * Keeps the broker's text of a refusal to create a topic, such as the reason of a policy. The client (kafkajs
 * 2.2.4) reads that text, but throws its own text for the code.
 */
import { KafkaJSAggregateError } from 'kafkajs';
import createTopicsResponse from 'kafkajs/src/protocol/requests/createTopics/v3/response';

/** For every client of this process. */
export function installRefusalTexts(): void {
  createTopicsResponse.parse = async (answer) => {
    try {
      return await parse(answer);
    } catch (error) {
      if (error instanceof KafkaJSAggregateError)
        for (const each of error.errors) {
          if (!(each instanceof Error)) continue;
          const about: unknown = Reflect.get(each, 'topic');
          const text = answer.topicErrors.find(({ topic }) => topic === about)?.errorMessage;
          if (text) each.message = text;
        }
      throw error;
    }
  };
}

const { parse } = createTopicsResponse;
