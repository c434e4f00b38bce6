"""LangChain's retrieval chain as its tutorial shows it: search, load, split, embed, retrieve four pieces, one prompt.

The chain has no citations: its answer names no source.
"""

from __future__ import annotations

from typing import Any

from exchange import play
from langchain_community.document_loaders import WebBaseLoader
from langchain_community.utilities import SearxSearchWrapper
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter

# The prompt of the tutorial, word for word (rlm/rag-prompt).
PROMPT = """You are an assistant for question-answering tasks. Use the following pieces of retrieved context to answer the \
question. If you don't know the answer, just say that you don't know. Use three sentences maximum and keep the answer concise.
Question: {question}
Context: {context}
Answer:"""


def answer(given: dict[str, Any]) -> dict[str, Any]:
    search = SearxSearchWrapper(searx_host=given["searxng_url"])
    urls = [result["link"] for result in search.results(given["question"], num_results=10) if "link" in result]
    # Both are options of the loader: a page that fails is left out, and one that does not answer is given up.
    pages = WebBaseLoader(urls, continue_on_failure=True, requests_kwargs={"timeout": 20}).load()
    pieces = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200).split_documents(pages)
    embeddings = OpenAIEmbeddings(
        base_url=given["model_url"], api_key="none", model="static", check_embedding_ctx_length=False
    )
    retriever = InMemoryVectorStore.from_documents(pieces, embeddings).as_retriever()
    model = ChatOpenAI(base_url=given["model_url"], api_key="none", model=given["model"])
    context = retriever | (lambda found: "\n\n".join(piece.page_content for piece in found))
    prompt = ChatPromptTemplate.from_template(PROMPT)
    chain = {"context": context, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    return {"answer": chain.invoke(given["question"])}


if __name__ == "__main__":
    play(answer)
