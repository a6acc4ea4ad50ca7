/** The routes of the server itself. */

import { z } from 'zod';
import { endpoint } from './endpoint.ts';

const tag = 'Server';
const everybody = { kind: 'everybody' } as const;
const anybody = { kind: 'anybody' } as const;

export const Health = endpoint('get /health', tag, everybody, {
  summary: 'Whether the server answers',
  result: z.object({ status: z.literal('ok') }),
});

export const Ready = endpoint('get /ready', tag, anybody, {
  summary: 'Whether it takes new work and reaches its storage',
  result: z.object({ status: z.literal('ready') }),
});

export const Metrics = endpoint('get /metrics', tag, anybody, {
  summary: 'Numbers for Prometheus',
  gives: ['text/plain'],
});

export const OpenApi = endpoint('get /openapi.json', tag, anybody, {
  summary: 'This document',
  gives: ['application/json'],
});

export const Docs = endpoint('get /docs', tag, anybody, { summary: 'This document, to be read', gives: ['text/html'] });
