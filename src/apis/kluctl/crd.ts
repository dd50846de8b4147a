/**
 * The CustomResourceDefinition, generated from the schemas we parse with; the fields and their types are kluctl's own.
 */
import { z } from "zod";
import { SpecSchema } from "./spec-schema.ts";

export type Schema = Readonly<Record<string, unknown>>;

export function customResourceDefinition(): Schema {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "kluctldeployments.gitops.kluctl.io" },
    spec: {
      group: "gitops.kluctl.io",
      names: {
        kind: "KluctlDeployment",
        listKind: "KluctlDeploymentList",
        plural: "kluctldeployments",
        singular: "kluctldeployment",
      },
      scope: "Namespaced",
      versions: [
        {
          name: "v1beta1",
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: printerColumns,
          schema: {
            openAPIV3Schema: {
              description: "A kluctl project to deploy from git and keep deployed.",
              type: "object",
              properties: {
                apiVersion: { type: "string" },
                kind: { type: "string" },
                metadata: { type: "object" },
                spec: specSchema(),
                status: statusSchema,
              },
            },
          },
        },
      ],
    },
  };
}

const ready = '.status.conditions[?(@.type=="Ready")]';

/** kluctl's own columns; those with a priority show with `-o wide`. */
const printerColumns = [
  { name: "Suspend", type: "boolean", jsonPath: ".spec.suspend" },
  { name: "DryRun", type: "boolean", jsonPath: ".spec.dryRun" },
  { name: "Deployed", type: "date", jsonPath: ".status.lastDeployResult.commandInfo.endTime" },
  { name: "Ready", type: "string", jsonPath: `${ready}.status` },
  { name: "Drift", type: "string", jsonPath: ".status.lastDriftDetectionResultMessage" },
  { name: "Status", type: "string", jsonPath: `${ready}.message` },
  { name: "Target", type: "string", jsonPath: ".spec.target", priority: 1 },
  { name: "Repository", type: "string", jsonPath: ".spec.source.git.url", priority: 1 },
  { name: "Commit", type: "string", jsonPath: ".status.observedCommit", priority: 1 },
  { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
];

const text = { type: "string" };
const time = { type: "string", format: "date-time" };
const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

/** The result of a request that was made with an annotation. */
const requestResult = {
  type: "object",
  required: ["reconcileId", "request", "startTime"],
  properties: {
    request: {
      type: "object",
      required: ["requestValue"],
      properties: { requestValue: text, overridesPatch: anything },
    },
    startTime: time,
    endTime: time,
    reconcileId: text,
    resultId: text,
    commandError: text,
  },
};

const condition = {
  type: "object",
  required: ["lastTransitionTime", "message", "reason", "status", "type"],
  properties: {
    lastTransitionTime: time,
    message: { type: "string", maxLength: 32768 },
    observedGeneration: { type: "integer", format: "int64", minimum: 0 },
    reason: { type: "string", minLength: 1, maxLength: 1024, pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" },
    status: { type: "string", enum: ["True", "False", "Unknown"] },
    type: {
      type: "string",
      maxLength: 316,
      pattern:
        "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    },
  },
};

const statusSchema = {
  type: "object",
  properties: {
    reconcileRequestResult: requestResult,
    diffRequestResult: requestResult,
    deployRequestResult: requestResult,
    pruneRequestResult: requestResult,
    validateRequestResult: requestResult,
    observedGeneration: { type: "integer", format: "int64" },
    observedCommit: text,
    conditions: { type: "array", items: condition },
    projectKey: { type: "object", properties: { repoKey: text, subDir: text } },
    targetKey: {
      type: "object",
      required: ["clusterId"],
      properties: { targetName: text, clusterId: text, discriminator: text },
    },
    lastObjectsHash: text,
    lastManualObjectsHash: text,
    lastPrepareError: text,
    lastDiffResult: anything,
    lastDeployResult: anything,
    lastValidateResult: anything,
    lastDriftDetectionResult: anything,
    lastDriftDetectionResultMessage: text,
  },
};

export function specSchema(): Schema {
  return toStructural(z.toJSONSchema(SpecSchema, { target: "openapi-3.0", io: "input" }));
}

/** Converts to what Kubernetes calls a structural schema: JSON schema without the keywords that it refuses. */
function toStructural(schema: unknown): Schema {
  const { properties, items, pattern, ...rest } = schema as Record<string, unknown>;
  const result: Record<string, unknown> = { ...rest };
  for (const word of ["$schema", "additionalProperties", "propertyNames"]) delete result[word];
  if (typeof pattern === "string") result["pattern"] = pattern;
  if (items !== undefined) result["items"] = toStructural(items);
  if (properties !== undefined) {
    result["properties"] = Object.fromEntries(
      Object.entries(properties as object).map(([name, property]) => [name, toStructural(property)]),
    );
  }
  return result;
}
