/** ACLs of a Kafka that asks who a client is. */
import {
  type AclEntry,
  type AclOperationTypes,
  AclPermissionTypes,
  type AclResourceTypes,
  ResourcePatternTypes,
} from 'kafkajs';
import { withAdmin } from './servers';

/** A function that makes entries which allow a user operations on one topic or group. */
export const allowing =
  (user: string) =>
  (resourceType: AclResourceTypes, resourceName: string, ...operations: AclOperationTypes[]): AclEntry[] =>
    operations.map((operation) => ({
      resourceType,
      resourceName,
      operation,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: `User:${user}`,
      host: '*',
      permissionType: AclPermissionTypes.ALLOW,
    }));

export const createAcls = (brokers: string[], ...entries: AclEntry[][]): Promise<boolean> =>
  withAdmin((admin) => admin.createAcls({ acl: entries.flat() }), brokers);
