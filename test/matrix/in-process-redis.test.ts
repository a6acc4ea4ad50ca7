import { matrix } from './matrix.ts';

matrix({ executor: 'in-process', storage: 'redis' });
