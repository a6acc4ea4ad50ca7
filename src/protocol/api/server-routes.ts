/** Routes of the server itself: health, status, stop, metrics and documentation. */

import { z } from 'zod';
import { ServerEnd, ServerStatus, StopServer } from '../server-info.ts';
import { adminOnly, anyone, anyUser, route } from './route.ts';

const serverTag = 'Server';

export const Home = route('get /', serverTag, anyone, {
  summary: 'A page that says what this is',
  gives: ['text/html'],
});

export const Health = route('get /health', serverTag, anyone, {
  summary: 'Whether the server answers',
  result: z.object({ status: z.literal('ok') }),
});

export const Ready = route('get /ready', serverTag, anyUser, {
  summary: 'Whether it takes new work and reaches its storage',
  result: z.object({ status: z.literal('ready') }),
});

export const GetServer = route('get /v1/server', serverTag, adminOnly, {
  summary: 'How the server does',
  result: ServerStatus,
});

export const StopServerRoute = route('post /v1/server/stop', serverTag, adminOnly, {
  summary: 'End the server in good order; again, with a shorter grace, to end it sooner',
  audit: 'server.stop',
  body: StopServer,
  whileStopping: true,
});

export const GetServerEnd = route('get /v1/server/end', serverTag, adminOnly, {
  summary: 'Wait until the server ends; it answers when everything is saved, or says what could not be',
  result: ServerEnd,
});

export const Metrics = route('get /metrics', serverTag, anyUser, {
  summary: 'Numbers for Prometheus',
  gives: ['text/plain'],
});

export const OpenApi = route('get /openapi.json', serverTag, anyUser, {
  summary: 'This document',
  gives: ['application/json'],
});

export const Docs = route('get /docs', serverTag, anyUser, {
  summary: 'This document, to be read',
  gives: ['text/html'],
});
