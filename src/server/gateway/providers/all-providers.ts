/** The adapter of each provider. */

import type { Provider } from '../../../protocol/enums.ts';
import { anthropic } from './anthropic.ts';
import { gemini } from './gemini.ts';
import { openai } from './openai.ts';
import type { ProviderAdapter } from './provider.ts';

export const providerAdapters: Readonly<Record<Provider, ProviderAdapter>> = { anthropic, openai, gemini };
